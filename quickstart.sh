#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# From a fresh clone to a first result: installs missing packages where it can
# (Debian, as root or with sudo), builds, records a real program, orders its
# trace, replays it, prints what came out. Nothing outside this folder changes
# but the packages.
set -eu
case ${1:-} in
'') ;;
--help)
    echo "Usage: ./quickstart.sh"
    sed -n '3,6s/^# //p' "$0"
    exit 0
    ;;
*)
    echo "quickstart.sh: unknown argument $1 (try --help)" >&2
    exit 2
    ;;
esac

top=$(cd "$(dirname "$0")" && pwd -P)
. "$top/tests/lib/prepare.sh"

need_packages
want_packages useful_packages
find_place quickstart
trap remove_place EXIT
trap 'exit 1' HUP INT TERM

step "Building in $build_root"
generate
build tree --enable-trace-compression

# Where the results stay: a build elsewhere is gone in the end. In a folder that
# cannot be written to there is no better place than that.
kept=$built
if [ "$place_is_temporary" = yes ] && [ -w "$top" ]; then
    kept=$top/build/quickstart
    keep_programs "$kept"
elif [ "$place_is_temporary" = yes ]; then
    trap - EXIT
fi

tools=$built/malloc-trace-replay
minimal=$built/.libs/libtcmalloc_minimal.so
tracing=$built/.libs/libtcmalloc_minimal_tracing.so
traces=$build_root/traces
rm -rf "$traces"
mkdir -p "$traces"
cd "$traces"

# --- A real program ---------------------------------------------------------
if have python3 && python=$(python3 -c 'import os, sys
print(os.path.realpath(sys.executable))') && [ -x "$python" ]; then
    program="Python: writing and reading JSON"
    set -- "$python" -c '
import json
d = [{"id": i, "name": "item %d" % i, "tags": [str(i)] * (i % 5)}
     for i in range(20000)]
for _ in range(3):
    d = json.loads(json.dumps(d))
print(len(d))'
    # Python keeps small objects to itself otherwise.
    PYTHONMALLOC=malloc
    export PYTHONMALLOC
elif have perl; then
    program="Perl: counting words"
    # shellcheck disable=SC2016
    set -- perl -e '
for $i (1 .. 300000) { push @{$h{$i % 5003}}, "word $i"; }
print scalar(keys %h), "\n";'
else
    program="awk: counting words"
    # shellcheck disable=SC2016
    set -- awk 'BEGIN { for (i = 0; i < 300000; i++) a["word " i % 5003] = \
        a["word " i % 5003] "x"; n = 0; for (k in a) n++; print n }'
fi

step "Recording ($program)"
printed=$(LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=t.lz4 "$@")
echo "The program printed: $printed"
"$tools/malloc-trace" info t.lz4

step "Ordering the streams of its threads"
"$tools/postprocess" -z --json postprocess.json t.lz4 p.lz4

step "Replaying the same requests under the C library's malloc"
"$tools/replay" --json libc.json p.lz4

step "Replaying them under tcmalloc-mt, the allocator of this project"
LD_PRELOAD=$minimal "$tools/replay" --json tcmalloc.json p.lz4

# --- The result -------------------------------------------------------------
value() {
    sed -n "s/^  \"$2\": \([0-9.]*\),\{0,1\}\$/\1/p" "$1" | head -n 1
}
ops=$(value postprocess.json ops)
[ "${ops:-0}" -gt 0 ] || die "nothing was recorded"
for file in libc tcmalloc; do
    [ "$(value $file.json ops)" = "$ops" ] ||
        die "replay did other operations than were recorded"
done

step "Result"
printf '%s operations recorded; the trace takes %s bytes on disk.\n' \
    "$ops" "$(value postprocess.json file_bytes)"
# A line for each allocator; of the processor time replay's own share.
printf '%-20s %36s %20s\n' '' 'ns an operation' ''
printf '%-20s %12s %14s %8s %20s\n' allocator processor "replay's own" \
    wall 'peak memory (bytes)'
for file in libc tcmalloc; do
    case $file in
    libc) name=glibc ;;
    *) name=tcmalloc-mt ;;
    esac
    own=$(value $file.json replayer_cpu_ns)
    printf '%-20s %12.1f %14.1f %8.1f %20s\n' "$name" \
        "$(value $file.json cpu_ns_per_op)" \
        "$(echo "${own:-0} $ops" | awk '{ print $1 / $2 }')" \
        "$(value $file.json ns_per_op)" "$(value $file.json peak_rss_bytes)"
done
percent=$(value tcmalloc.json malloc_percent)
[ -z "$percent" ] || printf \
    '\nmalloc took about %.0f %% of the recorded run.\n' "$percent"

if [ "$kept" != "$built" ]; then
    rm -rf "$kept/traces"
    cp -R "$traces" "$kept/"
    traces=$kept/traces
fi
step "Done"
where_programs "$kept"
printf 'traces     %s\n' "$traces"
printf '\nNext, record a program of yours:\n  "%s" record PROGRAM\n' \
    "$kept/malloc-trace-replay/malloc-trace"
