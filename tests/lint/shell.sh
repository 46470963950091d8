#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Shell scripts parse under a plain shell, and shellcheck has nothing to say; the
# harness fails a test that calls what does not exist, or checks nothing.
. "$top_srcdir/tests/lib/lint.sh"

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
# that one file sets and another uses; SC2319: $? of a condition, which result
# takes; SC3045: ulimit -v, which dash and bash
# have.
complaints() {
    # shellcheck disable=SC2046
    (cd "$tree" && shellcheck -s sh -S warning \
        -e SC1090,SC1091,SC2034,SC2154,SC2238,SC2319,SC3045 -f gcc $(scripts))
}

clean unparsable "scripts parse"
# Older releases number what a plain shell lacks in another way.
if shellcheck --version 2>/dev/null | grep -Eq '^version: (0\.([89]|1[0-9])|[1-9])'; then
    clean complaints "shellcheck is content"
    # The planted script stands alone: reading all once took long enough.
    mkdir "$work/empty"
    tree=$work/empty
    catches complaints "an unquoted test" tests/planted.sh \
        'cd $2; local x=1; echo $x'
else
    skip "shellcheck is content" "no shellcheck 0.8"
    skip "finds an unquoted test" "no shellcheck 0.8"
fi
catches unparsable "a script that does not parse" tests/planted.sh 'if x'

# ends_badly WHAT LINES: a test of these lines, with and without a good check.
ends_badly() {
    for before in : 'pass fine'; do
        printf '%s\n' '. "$top_srcdir/tests/lib/harness.sh"' "$before" "$2" \
            tap_end >script.sh
        fails_with "$1, after: $before" 1 env top_srcdir="$top_srcdir" \
            ${SHELL:-sh} script.sh
    done
}
ends_badly "a check that does not exist fails its test" 'no_such_check one two'
ends_badly "so does a command" 'is same "$(no-such-command)" ""'
ends_badly "and a check that fails" 'is "not so" 1 2'

# A folder of PATH that may not be read: a shell may take its error for that of
# the command.
mkdir closed
chmod 0 closed
readable=$PATH
PATH=$work/closed:$PATH
ends_badly "the same where a folder of PATH is closed" 'no_such_check one two'
PATH=$readable
chmod 700 closed
printf '%s\n' '. "$top_srcdir/tests/lib/harness.sh"' tap_end >script.sh
fails_with "and a test without checks" 1 ${SHELL:-sh} script.sh
tap_end
