#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# C and C++ sources are as clang-format leaves them; no file has tabs where
# they do not belong, blanks at line ends, lines or files that are too long; the
# lists of sources in module.am are sorted.
. "$top_srcdir/tests/lib/lint.sh"

sources() {
    list '*.c' '*.h' '*.cc' |
        grep -E '^(src|malloc-trace-replay|tests|bench)/'
}

formatter=
for name in clang-format-14 clang-format; do
    case $($name --version 2>/dev/null) in
    *"version 14."*)
        formatter=$name
        break
        ;;
    esac
done

# One run of the formatter for all files: a run for each takes a minute.
unformatted() {
    (
        cd "$tree" || exit
        # shellcheck disable=SC2046
        $formatter --style=file:"$top_srcdir/.clang-format" --dry-run -Werror \
            $(sources) 2>&1
    ) | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u
}

long_lines() {
    # Characters, not bytes; a link has no place to be cut at.
    # shellcheck disable=SC2046
    (cd "$tree" && awk 'length($0) > 80 && !/https?:/ {
        print FILENAME ":" FNR ": " length($0) " columns" }' \
        $(sources) $(list '*module.am'))
}

# A list of sources has them sorted, one and its header a line: two changes that
# each add a file then touch different lines.
unsorted_lists() {
    # shellcheck disable=SC2046
    (cd "$tree" && awk '
        tolower($1) ~ /sources$/ && $NF == "\\" { on = 1; last = ""; next }
        on {
            name = $1
            sub(/\.[a-z]*$/, "", name)
            if (name ~ /^%D%/) {
                if (name < last)
                    print FILENAME ":" FNR ": " $1 " after " last
                last = name
            }
            if ($NF != "\\")
                on = 0
        }' $(list '*module.am'))
}

bad_blanks() {
    # shellcheck disable=SC2046
    (
        cd "$tree" || exit
        grep -nE '[[:blank:]]$' $(sources) $(list '*.sh' |
            grep -v '^build-aux/')
        grep -n "$(printf '\t')" $(sources)
    )
}

long_files() {
    # shellcheck disable=SC2046
    (cd "$tree" && wc -l $(sources) | awk '$2 != "total" && $1 > 1200 {
        print $2 ": " $1 " lines" }')
}

if [ -n "$formatter" ]; then
    clean unformatted "sources are formatted"
    catches unformatted "an unformatted line" src/base/planted.c \
        'int   f( void ) ;'
else
    skip "sources are formatted" "no clang-format 14"
    skip "finds an unformatted line" "no clang-format 14"
fi
clean long_lines "no line is longer than 80"
clean bad_blanks "no blanks at line ends, no tabs"
clean unsorted_lists "lists of sources are sorted"
clean long_files "no file is longer than 1200 lines"
catches bad_blanks "a blank at a line's end" src/base/planted.c 'int x; '
catches long_lines "a long line" src/base/planted.c \
    "int $(printf '%0100d' 0 | tr 0 x);"
catches unsorted_lists "a source in the wrong place" src/base/module.am \
    "x_sources = \\
	%D%/b.c \\
	%D%/a.c"
tap_end
