#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every source file names its license in its first lines, and it is COPYING's.
. "$top_srcdir/tests/lint/lint.sh"

unlicensed() {
    for file in $(list '*.c' '*.h' '*.cc' '*.sh' '*.py' '*.m4' 'configure.ac' \
        'Makefile.am' | grep -Ev '^(m4/(lt|libtool)|build-aux/|aclocal)'); do
        case $file in autogen.sh | m4/*) continue ;; esac
        head -n 3 "$tree/$file" |
            grep -q 'SPDX-License-Identifier: BSD-3-Clause' || echo "$file"
    done
}

clean unlicensed "each source names its license"
catches unlicensed "a file without" src/base/planted.c 'int x;'
grep -q 'Redistribution and use in source and binary forms' \
    "$top_srcdir/COPYING" && grep -q 'Neither the name' "$top_srcdir/COPYING"
result $? "COPYING is that license"
tap_end
