#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recipes of CONTRIBUTING.md, walked through with the example that each of
# them follows: the files and functions that they name exist, the example stands
# in each file that they name, and in no other.
. "$top_srcdir/tests/lib/lint.sh"

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

# told HEAD: "STEP TOKEN" of what stands between backticks in each step.
told() {
    recipe "$1" | awk '/^[0-9]+[.] / { step++ } { print step + 0, $0 }' |
        awk '{
            step = $1
            sub(/^[0-9]+ */, "")
            text[step] = text[step] " " $0
            last = step
        }
        END {
            for (step = 0; step <= last; step++) {
                n = split(text[step], part, "`")
                for (i = 2; i <= n; i += 2) {
                    sub(/^ +/, "", part[i])
                    gsub(/ +/, " ", part[i])
                    print step, part[i]
                }
            }
        }'
}

# defines FILE NAME: whether the file defines or declares a function, a type or
# a macro of that name (it begins a line, or stands behind words that do), or a
# variable of the environment.
defines() {
    case $2 in
    'struct '* | 'enum '*) grep -qE "^$2 [{]" "$tree/$1" ;;
    *) grep -qE "^[A-Za-z_#][^(=;]*\\<$2\\>|^$2\\(|\"$2\"" \
        "$tree/$1" ;;
    esac
}

# Functions, types and macros are in the source that their step names last before
# them; those before the first step, or before any source of a step, are in one of
# the recipe.
missing_names() {
    heads | while read -r head; do
        told "$head" >"$work/told"
        while read -r step token; do
            case $token in
            */*.[ch])
                file=$token file_step=$step
                continue
                ;;
            */* | *' '*' '*) continue ;;
            'struct '* | 'enum '*) ;;
            *[!A-Za-z0-9_]*) continue ;;
            *_*) ;;
            *) continue ;;
            esac
            if [ "$step" != 0 ] && [ "${file_step:-}" = "$step" ]; then
                [ -e "$tree/$file" ] && defines "$file" "$token" ||
                    echo "CONTRIBUTING.md: $head: $token is not in $file"
            else
                found=0
                for any in $(sed -n 's,^[0-9]* \([^ ]*/[^ ]*[.][ch]\)$,\1,p' "$work/told"); do
                    [ ! -e "$tree/$any" ] || ! defines "$any" "$token" || found=1
                done
                [ "$found" = 1 ] ||
                    echo "CONTRIBUTING.md: $head: $token is in no file that it names"
            fi
        done <"$work/told"
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
        'MTF_(RAW|EVENT|PROC|OP)_MARK\>|\<BOTH\(MARK,' \
        src malloc-trace-replay
}
unnamed_subcommand() {
    unnamed "To add a subcommand of malloc-trace" \
        '\<cmd_ctl\>|cmd/malloc_trace/ctl/|"malloc-trace ctl|man/malloc-trace-ctl' \
        src malloc-trace-replay doc/module.am
}
unnamed_observer() {
    unnamed "To add an observer of a replay" \
        'X\(timeline\)|\<replay_timeline_observer\>|/watch/timeline[.]|[{]"timeline",|o->timeline\>|\*timeline;' \
        malloc-trace-replay/module.am malloc-trace-replay/cmd/replay
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
    idle "To add a subcommand of malloc-trace" '\<(cmd_)?ctl\>|^struct tool_opt \{'
    idle "To add an observer of a replay" '[Tt]imeline|replay_around_words'
    idle "To add a variable of the environment" \
        'TCMALLOC_(RELEASE_RATE|TRACE_KEEP_MB)|tcm_env_u64'
    idle "To change size classes" \
        '\<next_size\(|TCM_(MAX|TABLE)_(SMALL|CLASSES)|scaled class|size class'
}

[ "$(heads | wc -l)" -ge 4 ]
result "there are recipes" $?
for example in event subcommand observer variable class; do
    clean unnamed_$example "the files of the example are all named: $example"
done
clean idle_files "the example stands in each file that a recipe names"
clean missing_files "files that recipes name exist"
clean missing_names "functions and types that they name are in the files named"
catches unnamed_event "a file that the recipe forgets" src/base/planted.c \
    'MTF_RAW_MARK'
sed 's,src/core/size_class.c,src/core/arena.c,' "$recipes" >"$work/wrong.md"
recipes=$work/wrong.md
idle_files >"$work/idle"
like "finds a file that has nothing of the example" "$work/idle" \
    "To change size classes: src/core/arena.c"
missing_names >"$work/idle"
like "finds a name that is defined in another file" "$work/idle" \
    "To change size classes: CLASSES_SMALL is not in src/core/arena.c"
tap_end
