#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recipes of CONTRIBUTING.md, walked through with the example that each of
# them follows: the files and functions that they name exist, the example stands
# in each file that they name, and in no other.
. "$top_srcdir/tests/lint/lint.sh"

recipes=$top_srcdir/CONTRIBUTING.md

# recipe HEAD: the text of a section.
recipe() {
    awk -v head="## $1" '/^## / { on = $0 == head } on' "$recipes"
}

# quoted HEAD PATTERN: what stands between backticks there and matches.
quoted() {
    recipe "$1" | tr '\n' ' ' | grep -oE '`[^`]*`' | tr -d '`' |
        grep -E "$2" | sort -u
}

heads() { sed -n 's/^## \(To .*\)/\1/p' "$recipes"; }

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

# idle HEAD PATTERN: files that the recipe names and in which nothing of the
# example stands. Tests of a step need not speak of it.
idle() {
    for file in $(quoted "$1" '^((src|malloc-trace-replay|doc)/.*[.]|tests/unit/.*[.]c$)'); do
        (cd "$tree" && grep -qE -- "$2" "$file") ||
            echo "CONTRIBUTING.md: $1: $file"
    done
}

idle_files() {
    idle "To add an event kind" '[Mm][Aa][Rr][Kk]'
    idle "To add a subcommand of malloc-trace" '\<(cmd_)?ctl\>'
    idle "To add a variable of the environment" \
        'TCMALLOC_(RELEASE_RATE|TRACE_KEEP_MB)|tcm_env_u64'
    idle "To change size classes" \
        '\<next_size\(|TCM_MAX_(SMALL|CLASSES)|scaled class|size class'
}

[ "$(heads | wc -l)" -ge 4 ]
result "there are recipes" $?
for example in event subcommand variable class; do
    clean unnamed_$example "the files of the example are all named: $example"
done
clean idle_files "the example stands in each file that a recipe names"
clean missing_files "files that recipes name exist"
clean missing_names "functions and types that they name exist"
catches unnamed_event "a file that the recipe forgets" src/base/planted.c \
    'MTF_RAW_MARK'
sed 's,src/core/size_class.c,src/core/span.c,' "$recipes" >"$work/wrong.md"
recipes=$work/wrong.md
idle_files >"$work/idle"
like "finds a file that has nothing of the example" "$work/idle" \
    "To change size classes: src/core/span.c"
tap_end
