#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every source file names its license in its first lines, and it is COPYING's.
. "$top_srcdir/tests/lib/lint.sh"

unlicensed() {
    # shellcheck disable=SC2046
    (cd "$tree" && awk '
        FNR == 1 && NR > 1 && !named { print last }
        FNR == 1 { named = 0; last = FILENAME }
        FNR <= 3 && /SPDX-License-Identifier: BSD-3-Clause/ { named = 1 }
        END { if (!named) print last }' \
        $(list '*.c' '*.h' '*.cc' '*.sh' '*.py' '*.m4' 'configure.ac' \
            'Makefile.am' | grep -Ev '^(m4/|build-aux/|aclocal|autogen.sh)'))
}

clean unlicensed "each source names its license"
catches unlicensed "a file without" src/base/planted.c 'int x;'
grep -q 'Redistribution and use in source and binary forms' \
    "$top_srcdir/COPYING" && grep -q 'Neither the name' "$top_srcdir/COPYING"
result "COPYING is that license" $?
tap_end
