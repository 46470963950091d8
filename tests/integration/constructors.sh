#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What constructors of other libraries do before that of the recorder runs:
# allocate much, make threads, fork. All of it is recorded.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$malloc_trace"
need_python
: "${CC:=cc}"
cd "$work" || exit 99
mkdir t
echo 'int main(void) { return 0; }' >main.c
if ! $CC -shared -fPIC -o plugin.so "$here/constructors_plugin.c" -pthread \
    >err 2>&1 ||
    ! $CC -o main main.c -Wl,--no-as-needed "$work/plugin.so" >>err 2>&1; then
    skip_all "no compiler for a library"
fi

# counts FILE: calls, what is missing, and whether it is complete.
counts() {
    "$postprocess" -q --json j "$1" /dev/null 2>err || {
        cat err
        return
    }
    json j mallocs frees untraced_frees complete
}
DO=
export DO
for DO in much thread fork "fork first"; do
    record t/one.lz4 ./main
    is "$DO: runs to its end" "$?" 0
    blocks=20000
    # a new thread has a block of the C library's
    case $DO in thread) blocks=20001 ;; esac
    is "$DO: all is recorded" "$(counts t/one.lz4)" "$blocks 20000 0 true"
    is "$DO: the child is not" "$(find t -name 'one.lz4.[0-9]*')" ""
    record 't/tree.%p' ./main
    is "$DO, %p: runs to its end" "$?" 0
    find t -name 'tree.*' | sed 's/\.spool$//' | sort -u >names
    found=$(while read -r name; do counts "$name"; done <names | sort -n |
        tr '\n' ',')
    case $DO in
    fork*)
        is "$DO, %p: so is its child" "$found" \
            "300 0 0 true,20000 20000 0 true,"
        ;;
    *) is "$DO, %p: all is recorded" "$found" "$blocks 20000 0 true," ;;
    esac
    rm -f t/*
done

# Set-up comes with the first of them, and allocates itself.
DO=much
export TCMALLOC_TRACE_SITES=caller
record t/sites.lz4 ./main
check "with sites" "$malloc_trace" report -q --by=module --columns t/sites.lz4
like "each has that of its caller" "$out" ' 20000 .*plugin\.so$'
tap_end
