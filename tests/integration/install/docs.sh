#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the commands that the documents show: blocks marked ```sh of the .md
# files, and the EXAMPLES of manual pages of section 1 and 7, line by line, and
# the steps of workflows, in the order of the text, in one folder a document.
# Commands that build or test the whole project are run by check.sh or by
# packages.sh, which have to name them.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_command lz4
[ "${TCM_HAVE_LZ4:-yes}" = yes ] || skip_all "the examples use LZ4"

# Finds the programs like installed ones.
PATH=$top_builddir/malloc-trace-replay:$PATH
LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
CPATH=$top_srcdir/src
LIBRARY_PATH=$top_builddir/.libs
# The file that a workflow's summary is made of.
GITHUB_STEP_SUMMARY=$work/summary
export PATH LD_LIBRARY_PATH CPATH LIBRARY_PATH GITHUB_STEP_SUMMARY

# The program that examples record.
cat >app.c <<'END'
#include <stdlib.h>
static void *volatile keep[100];
int main(void) {
    for (int i = 0; i < 100000; i++) {
        free(keep[i % 100]);
        keep[i % 100] = malloc((size_t)(i % 500));
    }
    return 0;
}
END
run ${CC:-cc} -fno-builtin -o app app.c || skip_all "no compiler here"

# Traces that pages take for granted.
record t.lz4 ./app && "$postprocess" --quiet t.lz4 p && lz4 -q p p.lz4 ||
    fail "a trace to begin with"

# Every part of a pipe has to succeed, where there is a shell that can tell.
shell="sh"
if bash -o pipefail -c : 2>/dev/null; then
    shell="bash -o pipefail"
fi

# sources DOCUMENT FOLDER: what a document gives as "with this `NAME`:", a
# block marked ```c, ```cpp or ```python, becomes a file.
sources() {
    [ -e "$top_srcdir/doc/$1" ] || return
    awk -v folder="$2" '
        /^with this `[a-z_]+\.(c|cpp|py)`:$/ { split($0, part, "`"); name = part[2] }
        /^```(c|cpp|python)$/ && name != "" { on = 1; next }
        /^```$/ { if (on) name = ""; on = 0 }
        on { print >(folder "/" name) }' "$top_srcdir/doc/$1"
}

# try DOCUMENT COMMAND: runs it in the document's folder. A missing library of
# another project makes the loader complain, which is no failure.
try() {
    case $2 in
    *"make deb"*)
        grep -q 'make.* deb' "$here/install/packages.sh"
        result "$1: packages.sh does: $2" $?
        return
        ;;
    ./quickstart.sh* | ./check.sh* | ./autogen.sh* | mkdir\ -p\ build*)
        script=${2%% *}
        grep -qE "$(basename "$script" .sh)|make install" "$top_srcdir/check.sh"
        result "$1: check.sh does: $2" $?
        return
        ;;
    esac
    folder=$work/$(basename "$1").d
    if [ ! -d "$folder" ]; then
        mkdir "$folder"
        cp app app.c t.lz4 p.lz4 p "$folder"
        # Programs and a recording that pages take for granted.
        cp app "$folder/server"
        cp app "$folder/leak"
        cp "$top_srcdir/tests/data/formats/heaptrack" "$folder/app.raw.zst"
        sources "$1" "$folder"
    fi
    case $2 in
    g++*) have g++ || { skip "$1: $2" "no g++ here"; return; } ;;
    sudo*)
        skip "$1: $2" "packages are installed by packages.sh"
        return
        ;;
    *python3* | *py.lz4*)
        [ -n "$python" ] || { skip "$1: $2" "no python3 here"; return; }
        ;;
    esac
    (
        cd "$folder" && timeout 60 $shell -c "$2" </dev/null
    ) >"$out" 2>"$err"
    status=$?
    if [ "$status" -eq 0 ]; then
        pass "$1: $2"
    else
        show_last "$status" "$2"
        fail "$1: $2"
    fi
}

# blocks DOCUMENT: commands, one a line. A step of a workflow (run: in a block
# marked ```yaml) is one command, which fails where a line of it does.
blocks() {
    awk 'function end_step() { if (step != "") print step; step = "" }
        /^```sh$/ { on = 1; next }
        /^```yaml$/ { yaml = 1; column = 999; next }
        /^```/ { end_step(); on = yaml = 0 }
        on && NF
        !yaml { next }
        { match($0, /^ */); deep = RLENGTH > column }
        !deep { end_step(); column = 999 }
        deep { sub(/^ */, ""); step = step (step == "" ? "" : " && ") $0 }
        /^ *run: \|$/ { column = RLENGTH; next }
        /^ *run: / { sub(/^ *run: /, ""); print }' "$1"
}

examples() {
    awk '/^\.SH EXAMPLES/ { section = 1; next } /^\.S[Hh]/ { section = 0 }
         section && /^\.nf/ { on = 1; next } /^\.fi/ { on = 0 }
         section && on && NF' "$1" | sed 's/\\-/-/g; s/\\e$/\\/'
}

for document in "$top_srcdir"/README.md "$top_srcdir"/CONTRIBUTING.md \
    "$top_srcdir"/doc/*.md; do
    [ -e "$document" ] || continue
    blocks "$document" >commands
    while read -r command; do
        try "$(basename "$document")" "$command"
    done <commands
done
for page in "$top_srcdir"/doc/man/*.[17]; do
    examples "$page" >commands
    while read -r command; do
        try "$(basename "$page")" "$command"
    done <commands
done
check "the workflow has a summary" grep -q "processor time" "$GITHUB_STEP_SUMMARY"
[ "$tap_count" -gt 15 ]
result "the documents show commands" $?
tap_end
