#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace report of recorded stacks: equal, frame by frame, to those that
# valgrind's DHAT sees, in C, in C++ with templates and inlined functions, in
# Rust, without frame pointers, stripped with a debug file, in closed libraries
# and in threads; leaks equal to memcheck's; and samples.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$built/sites/sites_target" "$postprocess" "$malloc_trace"
need_python
: "${CC:=cc}" "${CXX:=c++}"
"$malloc_trace" record -q --sites=stack -o probe true 2>/dev/null ||
    skip_all "no stacks are recorded here"

stacked() { TCMALLOC_TRACE_SITES=stack:64 record "$@"; }
report() { "$malloc_trace" report "$@"; }
sums() { # JSON OBJECT FIELD...
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(*(d[sys.argv[2]][x] for x in sys.argv[3:]))' "$@"
}

# Sums.
stacked t "$built/sites/sites_target" all
"$postprocess" -q --json post.json t p
for by in site function line file module lang stack; do
    report -q --by=$by --to=json -o r.json p
    is "by $by: the sums are the trace's" \
        "$(sums r.json total bytes live_blocks failed)" \
        "$(json post.json requested_bytes live_at_end failed_allocations)"
done
report -q --tree --share 0 --to=json -o r.json p
is "the tree's, too" "$("$python" -c 'import json
d = json.load(open("r.json"))
print(*(sum(n[x] for n in d["tree"] if n["depth"] == 1)
        for x in ("bytes", "live_blocks")))')" \
    "$(json post.json requested_bytes live_at_end)"

# Samples: estimates beside what is exact. 60 bytes a block on average, so that
# each stands for many.
TCMALLOC_TRACE_SITES=sample:8192 record s "$built/sites/sites_target" all
"$postprocess" -q --json s.json s s.p
report -q --to=json -o r.json s.p
is "samples: exact sums" "$(sums r.json exact_total bytes live_blocks)" \
    "$(json s.json requested_bytes live_at_end)"
check "and estimates not far from them" "$python" -c 'import json
d = json.load(open("r.json"))
got, want = d["total"], d["exact_total"]
samples = sum(r["samples"] for r in d["rows"])
print(samples, got["bytes"], want["bytes"])
assert d["estimated"] and samples > 100
assert abs(got["bytes"] - want["bytes"]) < 0.1 * want["bytes"]'

[ "${TCM_HAVE_LIBDW:-no}" = yes ] && has_valgrind_frames || {
    skip "as valgrind" "no valgrind 3.17, or built without elfutils"
    tap_end
}

# dhat WHAT COMMAND...: blocks, bytes and what is alive at the end, by stack.
no_frees='--run-libc-freeres=no --run-cxx-freeres=no'
dhat() {
    dhat_name=$1
    shift
    # shellcheck disable=SC2086
    valgrind -q --tool=dhat --num-callers=40 --keep-debuginfo=yes $no_frees \
        --dhat-out-file=dhat.json "$@" >/dev/null 2>err
    rm -f v*
    stacked v "$@" >/dev/null
    report -q --by=stack --to=json -o v.json v
    check "as DHAT: $dhat_name" \
        "$python" "$here/report/report_dhat.py" dhat.json v.json 0
    tail -n 3 "$out" | sed 's/^/# /'
}
compiled() { # NAME COMMAND...: what is compared, if it compiles
    compiled_name=$1
    shift
    "$@" 2>err || {
        skip "as DHAT: $compiled_name" "it does not compile"
        return 1
    }
}
what="a C program"
! compiled "$what" $CC -g -O1 -fno-builtin -o app "$here/report/report_target.c" ||
    dhat "$what" ./app
what="templates and inlined functions"
! compiled "$what" $CXX -g -O2 -o cxx "$here/report/report_cxx.cc" || dhat "$what" ./cxx
what="without frame pointers"
! compiled "$what" $CXX -g -O2 -fomit-frame-pointer -fno-inline -o bare \
    "$here/report/report_cxx.cc" || dhat "$what" ./bare
what="with frame pointers"
! compiled "$what" $CXX -g -O1 -fno-omit-frame-pointer -o framed \
    "$here/report/report_cxx.cc" || dhat "$what" ./framed
what="a Rust program"
rustc=$(command -v rustc || command -v "${HOME:-}/.cargo/bin/rustc")
if [ -z "$rustc" ]; then
    skip "as DHAT: $what" "no rustc"
else
    ! compiled "$what" "$rustc" -g -O -o rust "$here/report/report_rust.rs" ||
        dhat "$what" ./rust
fi
dhat "all calls that allocate" "$built/sites/sites_target" all
dhat "threads" "$built/sites/sites_target" threads
if have objcopy && have strip && [ -e cxx ]; then
    objcopy --only-keep-debug cxx cxx.debug
    strip -o stripped cxx
    objcopy --add-gnu-debuglink=cxx.debug stripped
    dhat "stripped, with its debug file" ./stripped
fi
if for size in 1000 2000; do
    $CC -shared -fPIC -g -O2 -fno-builtin -DSIZE=$size -Wl,--build-id \
        -o "plugin$size.so" "$here/sites/sites_plugin.c" || exit 1
done >err 2>&1; then
    dhat "closed libraries" "$built/sites/sites_target" plugins \
        "$work/plugin1000.so" "$work/plugin2000.so" "$work/plugin1000.so"
fi
! have sort || dhat "sort" sort "$here/report/report.sh"
! have sqlite3 || dhat "sqlite3" sqlite3 :memory: \
    'create table a(x); insert into a values (1), (2); select * from a;'

# memcheck's records of what is alive at the end.
stacked v "$built/sites/sites_target" all
# shellcheck disable=SC2086
valgrind $no_frees --leak-check=full --show-leak-kinds=all \
    "$built/sites/sites_target" all 2>err
report -q --by=stack --to=json -o v.json v
is "as memcheck: what is alive at the end" \
    "$(sums v.json total live_bytes live_blocks)" \
    "$(sed -n 's/,//g; s/.*in use at exit: \([0-9]*\) bytes in \([0-9]*\) .*/\1 \2/p' err)"
tap_end
