#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Comments begin with their subject: a noun or a verb, not with What, Whether,
# Of, As or "The same".
. "$top_srcdir/tests/lib/lint.sh"

# The first words of each comment: behind its opening, blanks and an asterisk. In
# scripts a comment is lines that begin with #, one behind the other.
openings() {
    # shellcheck disable=SC2046
    (cd "$tree" && awk '
        function judge(text) {
            if (text ~ /^(What|Whether|Of|As|The same)([ ,.:;]|$)/)
                print FILENAME ":" FNR ": " text
            waits = 0
        }
        FNR == 1 {
            waits = inside = 0
            is_c = FILENAME ~ /[.](c|h|cc)$/
        }
        !is_c {
            is_comment = sub(/^[ \t]*# /, "")
            if (is_comment && !inside)
                judge($0)
            inside = is_comment && !/SPDX|^shellcheck/
            next
        }
        /\/\*/ {
            text = $0
            sub(/^.*\/\*[ \t]*/, "", text)
            waits = text == ""
            if (!waits)
                judge(text)
            next
        }
        waits {
            text = $0
            sub(/^[ \t]*[*]?[ \t]*/, "", text)
            if (text != "")
                judge(text)
        }' $(list '*.c' '*.h' '*.cc' '*.sh' '*.py' '*module.am'))
}

clean openings "comments begin with their subject"
catches openings "one that does not" src/api/planted.c '/* What it is. */'
catches openings "one of a script" tests/lib/planted.sh '# What it is.'
tap_end
