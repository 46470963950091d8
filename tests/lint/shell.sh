#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Shell scripts parse under a plain shell, and shellcheck has nothing to say.
. "$top_srcdir/tests/lint/lint.sh"

scripts() {
    list '*.sh' | grep -Ev '^(build-aux/|libtool)'
    [ ! -f "$tree/.ci/run" ] || echo .ci/run
}

unparsable() {
    for file in $(scripts); do
        sh -n "$tree/$file" 2>&1 | sed "s,^,$file: ,"
    done
}

# SC1090, SC1091: what is read is found at run time; SC2034, SC2154: variables
# that one file sets and another uses; SC3045: ulimit -v, which dash and bash
# have.
complaints() {
    # shellcheck disable=SC2046
    (cd "$tree" && shellcheck -s sh -S warning \
        -e SC1090,SC1091,SC2034,SC2154,SC2238,SC3045 -f gcc $(scripts))
}

clean unparsable "scripts parse"
if command -v shellcheck >/dev/null 2>&1; then
    clean complaints "shellcheck is content"
    catches complaints "an unquoted test" tests/planted.sh \
        'cd $2; local x=1; echo $x'
else
    skip "shellcheck is content" "no shellcheck"
    skip "finds an unquoted test" "no shellcheck"
fi
catches unparsable "a script that does not parse" tests/planted.sh 'if x'
tap_end
