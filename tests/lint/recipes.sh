#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recipes of CONTRIBUTING.md name files and functions that exist, and all of
# the files in which the example that each recipe follows stands.
. "$top_srcdir/tests/lint/lint.sh"

# recipe HEAD: the text of a section.
recipe() {
    awk -v head="## $1" '/^## / { on = $0 == head } on' "$tree/CONTRIBUTING.md"
}

# quoted HEAD PATTERN: what stands between backticks there and matches.
quoted() {
    recipe "$1" | tr '\n' ' ' | grep -oE '`[^`]*`' | tr -d '`' |
        grep -E "$2" | sort -u
}

heads() { sed -n 's/^## \(To .*\)/\1/p' "$tree/CONTRIBUTING.md"; }

missing_files() {
    heads | while read -r head; do
        for file in $(quoted "$head" /); do
            [ -e "$tree/$file" ] || echo "CONTRIBUTING.md: $head: $file"
        done
    done
}

# Functions, types and macros.
missing_names() {
    # shellcheck disable=SC2046
    heads | while read -r head; do
        quoted "$head" '^(enum )?[A-Za-z0-9_]*_[A-Za-z0-9_]*$' |
            while read -r name; do
                (cd "$tree" && cat $(list '*.c' '*.h' |
                    grep -E '^(src|malloc-trace-replay)/')) |
                    grep -qw -- "$name" || echo "CONTRIBUTING.md: $head: $name"
            done
    done
}

# unnamed HEAD PATTERN FOLDER...: files of the folders in which the example
# stands, and of which the recipe does not speak.
unnamed() {
    head=$1
    pattern=$2
    shift 2
    quoted "$head" / >"$work/named"
    (cd "$tree" && grep -rlE -- "$pattern" "$@") | sort |
        comm -23 - "$work/named" | sed "s/^/CONTRIBUTING.md: $head: /"
}

unnamed_event() {
    unnamed "To add an event kind" \
        'MTF_(RAW|EVENT|PROC|OP)_MARK\>|\<mtf_proc_put_mark\>' \
        src malloc-trace-replay
}
unnamed_subcommand() {
    unnamed "To add a subcommand of malloc-trace" \
        '\<cmd_ctl\>|cmd/malloc_trace/ctl/|"Usage: malloc-trace ctl|man/malloc-trace-ctl' \
        src malloc-trace-replay doc/module.am
}
unnamed_variable() {
    unnamed "To add a variable of the environment" TCMALLOC_RELEASE_RATE \
        src malloc-trace-replay doc/environment.md doc/man tests/integration
    unnamed "To add a variable of the environment" '"TCMALLOC_TRACE_KEEP_MB' \
        src malloc-trace-replay
}
unnamed_class() {
    unnamed "To change size classes" '\<next_size\(|define TCM_MAX_CLASSES' \
        src/core
}

[ "$(heads | wc -l)" -ge 4 ]
result "there are recipes" $?
for example in event subcommand variable class; do
    clean unnamed_$example "the files of the example are all named: $example"
done
clean missing_files "files that recipes name exist"
clean missing_names "functions and types that they name exist"
catches unnamed_event "a file that the recipe forgets" src/base/planted.c \
    'MTF_RAW_MARK'
tap_end
