#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Real traces of other programs, where they are installed: the figures of an
# independent script are those of the tools, under every allocator.
. "$top_srcdir/tests/lib/harness.sh"
need_python
need "$malloc_trace" "$replay"
data=${MALLOC_TRACE_DATA:-$top_srcdir/../shared/data}
need "$data/android-systemui.zip" "$data/cmt-401.bzip2.txt"
[ "${TCM_SANITIZED:-no}" = no ] ||
    skip_all "the sanitizers' runtime replaces malloc"

# counts FILE: ops, live blocks, peak bytes and threads, by the text alone.
"$python" - "$data" >truth <<'END'
import io, re, sys, zipfile
def count(lines):
    live, total, peak, ops, threads = {}, 0, 0, 0, set()
    for thread, call, result, old, size in lines:
        if call == 'none' or (call == 'free' and not old):
            continue
        threads.add(thread)
        ops += 1
        if old:
            total -= live.pop(old)
        if result:
            assert result not in live
            live[result] = size
            total += size
            peak = max(peak, total)
    return ops, len(live), peak, len(threads)
def android(text):
    for line in text:
        f = line.split()
        p, a = int(f[2], 16), f[3:]
        if f[1] == 'malloc': yield f[0], 'malloc', p, 0, int(a[0])
        elif f[1] == 'calloc': yield f[0], 'calloc', p, 0, int(a[0]) * int(a[1])
        elif f[1] == 'memalign': yield f[0], 'memalign', p, 0, int(a[1])
        elif f[1] == 'realloc': yield f[0], 'realloc', p, int(a[0], 16), int(a[1])
        elif f[1] == 'free': yield f[0], 'free', 0, p, 0
        else: yield f[0], 'none', 0, 0, 0
def cmt(text):
    for line in text:
        m = re.match(r'malloc\((\d+)\) = 0x(\w+)$', line)
        if m: yield 1, 'malloc', int(m[2], 16), 0, int(m[1])
        else: yield 1, 'free', 0, int(re.match(r'free\(0x(\w+)\)$', line)[1], 16), 0
z = zipfile.ZipFile(sys.argv[1] + '/android-systemui.zip')
print(*count(android(io.TextIOWrapper(z.open(z.namelist()[0])))))
print(*count(cmt(open(sys.argv[1] + '/cmt-401.bzip2.txt'))))
END
# of FILE NAME: the trace and its truth.
try() {
    file=$data/$1
    name=$2
    truth=$(sed -n "$3p" truth)
    check "$name: converted" "$malloc_trace" convert -q "$file" p
    check "$name: info" "$malloc_trace" info -q --json j p
    got=$(sed -nE 's/^      "(ops|live_at_end|peak_live_bytes|threads_with_events)": ([0-9]+),?$/\1 \2/p' j |
        sort | uniq)
    set -- $truth
    is "$name: info agrees with the text" \
        "$(echo "$got" | grep -E '^(live|ops|peak)' | tr '\n' ' ')" \
        "live_at_end $2 ops $1 peak_live_bytes $3 "
    for library in "" libjemalloc.so.2 libmimalloc.so.2 \
        libtcmalloc_minimal.so.4 "$minimal"; do
        if [ -n "$library" ] && [ "$library" != "$minimal" ] &&
            ! LD_PRELOAD=$library "$replay" --version 2>&1 >"$out" |
            cmp -s - /dev/null; then
            skip "$name: ${library:-libc}" "it is not here"
            continue
        fi
        for threads in none real switch; do
            [ "$threads" != switch ] || [ "$library" = "$minimal" ] || continue
            # In one thread it takes long to hold 60,000 blocks apart.
            verify=--check
            [ "${LONG:-0}" != 0 ] || [ "$threads" = real ] ||
                [ "$2" -lt 1000 ] || verify=
            rm -f j
            # shellcheck disable=SC2086
            check "$name: $(basename "${library:-libc}"), $threads" env \
                LD_PRELOAD="$library" "$replay" --touch=first $verify \
                --threads=$threads --json j "$file"
            is "$name: agrees with the text" \
                "$(json j ops end_live_objects peak_live_bytes threads)" "$truth"
        done
    done
}
try cmt-401.bzip2.txt "bzip2's trace" 2
try android-systemui.zip "SystemUI's trace" 1
tap_end
