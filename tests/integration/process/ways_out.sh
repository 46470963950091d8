#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every call that returned is in the trace, however the process ends or began;
# and no way into the recorder waits for a thread that cannot be made yet.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$postprocess" "$built/process/ways_out"
: "${CC:=cc}"
rounds=12
[ "${LONG:-0}" = 1 ] && rounds=200

# post FILE
post() {
    timeout 120 "$postprocess" --quiet --json json "$1" p >out 2>err ||
        diag <err
}

# --- Exit while others allocate ----------------------------------------------

missing=0
claims=0
for name in trace.$suffix "trace.%p"; do
    i=0
    while [ $i -lt $rounds ]; do
        i=$((i + 1))
        rm -f trace.* counts
        record "$name" "$built/process/ways_out" exit counts >out 2>err
        # Threads that went on for long after the handlers leave a spool.
        for trace in trace.*; do
            case $trace in *.spool) ;; *) post "$trace" ;; esac
        done
        read -r mallocs frees <<END
$("$built/process/ways_out" sum counts)
END
        read -r had_mallocs had_frees complete <<END
$(json json mallocs frees complete)
END
        [ "$had_mallocs" -ge "$mallocs" ] && [ "$had_frees" -ge "$frees" ] || {
            note "$name: $complete: $had_mallocs of $mallocs, $had_frees of $frees"
            missing=$((missing + 1))
        }
        [ "$complete" != true ] || claims=$((claims + 1))
    done
done
is "exit while others allocate: every call that returned" "$missing" 0
at_least "exit while others allocate: complete" "$claims" 1

# --- Children without handlers -----------------------------------------------

rm -f trace.*
record "trace.%p" "$built/process/ways_out" children >out 2>err
is "children without handlers: they go on" "$? $(cat out)" "0 2 good"
good=0
for trace in trace.*; do
    post "$trace"
    case $(json json mallocs frees complete unmatched_frees) in
    "1000 1000 true 0") good=$((good + 1)) ;;
    *) note "$(json json mallocs frees complete unmatched_frees)" ;;
    esac
done
is "children without handlers: their calls" "$good" 2

# --- In the loader -----------------------------------------------------------

cat >plugin.c <<'END'
#include <stddef.h>
void allocate_in_loader(void);
static int one(void) { return 1; }
static int (*resolve(void))(void) { allocate_in_loader(); return one; }
static int chosen(void) __attribute__((ifunc("resolve")));
int (*volatile pointer)(void) = chosen;
int call(void) { return pointer(); }
END
if $CC -shared -fPIC -Wl,-z,lazy -o plugin.so plugin.c 2>err; then
    rm -f trace.*
    record "trace.%p" "$built/process/ways_out" dlopen "$work/plugin.so" >out 2>err
    is "in the loader: nobody waits for ever" "$? $(cat err)" "0 "
    post "$(echo trace.*)"
    is "in the loader: every call" "$(json json complete order_conflicts)" \
        "true 0"
    at_least "in the loader: of both threads" "$(json json mallocs)" 2100000
else
    skip "in the loader" "no compiler for such a library"
fi
tap_end
