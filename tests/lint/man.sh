#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every program has a man page with all its options and no others, each page
# is free of formatting errors, and every environment variable that the sources
# read is described.
. "$top_srcdir/tests/lib/lint.sh"

pages=$top_srcdir/doc/man

# Options, in text from either of both macro packages.
options_of() {
    sed -e 's/\\-/-/g' -e 's/\\fB//g' -e 's/\\f[RIP]//g' \
        -e 's/Fl -/--/g' -e 's/Fl \([a-z]\)/-\1/g' |
        grep -oE '(^|[^[:alnum:]_-])--?[a-z][a-z-]*' |
        sed 's/^[^-]*//' | grep -Ev '^-[a-z].' | sort -u
}

check_program() {
    name=$1
    shift
    "$@" --help >long_help
    check "$name -V" "$@" -V
    like "$name: its version" "$out" "^$name \\(malloc-trace\\) [0-9]"
    check "$name -h" "$@" -h
    cp "$out" short_help
    check "$name: the same as --help" cmp -s short_help long_help
    like "$name: has -q" short_help "^ *-q, --quiet "
    like "$name: has -h" short_help "^ *-h, --help "
    like "$name: has -V" short_help "^ *-V, --version "
    at_least "$name --help: a screen of options" 15 \
        "$(grep -cE '^  (-|   *--)' short_help)"
    check "$name --help-all" "$@" --help-all
    options_of <"$out" >help_options
    page=$pages/$(echo "$name" | tr ' ' -).1
    if [ ! -e "$page" ]; then
        fail "$name has a man page"
        return
    fi
    # Those of commands that are shown as examples are not the program's.
    sed '/^\.S[Hh] EXAMPLES/,/^\.S[Hh] [^E]/d' "$page" | options_of |
        grep -Ev "^(${other_options:---none})\$" >page_options
    [ -s help_options ]
    result "$name --help names options" $?
    is "$name: the page has all options" \
        "$(comm -23 help_options page_options | tr '\n' ' ')" ""
    is "$name: and no others" \
        "$(comm -13 help_options page_options | tr '\n' ' ')" ""
}

check_program postprocess "$postprocess"
check_program replay "$replay"
check_program bump-pipes "$bump_pipes"
check_program malloc-trace "$malloc_trace"
# --help of malloc-trace lists its commands, with two blanks before each.
"$malloc_trace" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' \
    >all_commands
check "malloc-trace help" "$malloc_trace" help
cp "$out" help
"$malloc_trace" --help >long_help
check "malloc-trace help: the same as --help" cmp -s help long_help
"$malloc_trace" help gate --help-all >help
"$malloc_trace" gate --help-all >long_help
check "malloc-trace help gate --help-all" cmp -s help long_help
# Two of them are programs with a name of their own.
for pair in replay:replay order:postprocess; do
    "$tools/${pair#*:}" --help >program_help
    "$malloc_trace" help "${pair%:*}" >help
    check "malloc-trace help ${pair%:*}" cmp -s help program_help
    grep -qx "${pair%:*}" all_commands &&
        grep -qF "see \" ${pair#*:} (1)" "$pages/malloc-trace.1"
    result "malloc-trace ${pair%:*} is listed" $?
done
grep -vxE 'replay|order' all_commands >commands
[ "$(wc -l <commands)" -ge 8 ]
result "malloc-trace --help lists the commands" $?
while read -r command; do
    check_program "malloc-trace $command" "$malloc_trace" "$command"
    grep -q "malloc-trace-$command (1)" "$pages/malloc-trace.1"
    result "malloc-trace $command: the page of malloc-trace names it" $?
done <commands

badly_formatted() {
    for page in "$pages"/*.[1-9]; do
        groff -mandoc -Tutf8 -ww -z "$page" 2>&1 | sed "s,^,$page: ,"
    done
}
if command -v groff >/dev/null 2>&1; then
    clean badly_formatted "pages are well formed"
else
    skip "pages are well formed" "no groff"
fi

# Variables that the library reads are in its page.
undescribed() {
    list 'src/*.c' | grep '^src/' | while read -r file; do
        grep -ohE 'tcm_env_[a-z0-9_]+\("[A-Z_0-9]+"' "$tree/$file"
    done | sed 's/.*"\(.*\)"/\1/' | sort -u | while read -r variable; do
        # Internal between a process and what it execs.
        [ "$variable" != TCMALLOC_TRACE_OWNER ] || continue
        grep -q "$variable" "$pages/libtcmalloc_minimal_tracing.7" ||
            echo "$variable"
    done
}
clean undescribed "variables that the library reads are described"
# shellcheck disable=SC2016
catches_undescribed() { undescribed | sed 's,^,src/base/planted.c: ,'; }
catches catches_undescribed "a variable that is not" src/base/planted.c \
    '    tcm_env_bool("TCMALLOC_PLANTED");'
tap_end
