#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Comments begin with their subject: a noun or a verb, not with What, Whether,
# Of, As or "The same". Folders that still have such comments have an allowance,
# which is lowered when some are rewritten and never raised.
. "$top_srcdir/tests/lint/lint.sh"

# The first words of each comment: behind its opening, blanks and an asterisk.
openings() {
    # shellcheck disable=SC2046
    (cd "$tree" && awk '
        function judge(text) {
            if (text ~ /^(What|Whether|Of|As|The same)([ ,.:;]|$)/)
                print FILENAME ":" FNR ": " text
            waits = 0
        }
        FNR == 1 { waits = 0 }
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
        }' $(list '*.c' '*.h' '*.cc'))
}

# Folder and allowance; the first one that is a file's counts.
allowances() {
    cat <<'END'
src/ 0
malloc-trace-replay/ 0
tests/ 0
bench/ 0
END
}

# Openings of each folder that has more than it is allowed.
bad_openings() {
    openings >"$work/openings"
    allowances | awk '
        NR == FNR { folder[++n] = $1; allowed[n] = $2; next }
        {
            for (i = 1; i <= n; i++)
                if (index($0, folder[i]) == 1) {
                    count[i]++
                    lines[i] = lines[i] $0 "\n"
                    break
                }
        }
        END {
            for (i = 1; i <= n; i++)
                if (count[i] > allowed[i])
                    printf "%s: %d, and %d are allowed\n%s", folder[i],
                        count[i], allowed[i], lines[i]
        }' - "$work/openings"
}

clean bad_openings "comments begin with their subject"
catches bad_openings "one that does not" src/api/planted.c '/* What it is. */'
tap_end
