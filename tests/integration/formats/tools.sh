#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Formats of other programs beside the programs: each one that is installed
# records a program whose calls are known, and the recording has them.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace" "$built/formats/tools_target"
[ "${TCM_SANITIZED:-no}" = no ] ||
    skip_all "the sanitizers' runtime replaces malloc"
target=$built/formats/tools_target

# calls TEXT: the calls of the target in a trace as text, by their sizes.
calls() {
    awk '
        function known(size) { return size >= 100001 && size <= 100009 }
        { sub(/ moved$/, "") }
        /^slot [0-9]+ = / {
            slot = $2
            call = $4
            sub(/\(.*/, "", call)
            text = $0
            sub(/^[^(]*\(/, "", text)
            if (text ~ /^slot /) {
                if (known(size[slot]))
                    print "-" size[slot]
                sub(/^slot [0-9]+, /, "", text)
            }
            sub(/^NULL, /, "", text)
            size[slot] = text + 0
            if (known(size[slot]))
                print "+" size[slot], call
        }
        /^[a-z_]*(free|delete)[^ ]*\(slot / {
            slot = $0
            sub(/^.*\(slot /, "", slot)
            slot += 0
            if (known(size[slot]))
                print "-" size[slot]
            size[slot] = 0
        }' "$1"
}
cat >want <<'END'
+100001 malloc
+100002 calloc
-100001
+100003 realloc
+100004 posix_memalign
+100005 memalign
+100006 memalign
+100007 malloc
-100003
+100008 realloc
-100008
+100009 malloc
-100004
-100005
-100006
-100007
END

# recorded TOOL FORMAT STATUS [SED]: the file log, in FORMAT, has the calls,
# edited by SED.
recorded() {
    fails_with "$1: converted" "$3" "$malloc_trace" convert --to text log text
    cp "$err" said
    like "$1: its format" said "from $2"
    # One function of the C library has both names.
    calls text | sed "s/ aligned_alloc$/ memalign/; ${4:-}" >got
    check "$1: the calls of the target" diff want got
}

# ltrace prints all calls, wherever they come from, if the names are those of
# the functions themselves (-x).
family='malloc+calloc+realloc+posix_memalign+aligned_alloc+memalign+free'
cat >ltrace.conf <<'END'
addr malloc(ulong);
addr calloc(ulong, ulong);
addr realloc(addr, ulong);
int posix_memalign(+addr*, ulong, ulong);
addr aligned_alloc(ulong, ulong);
addr memalign(ulong, ulong);
void free(addr);
END
if have ltrace && ltrace -o log true >/dev/null 2>&1; then
    for options in -t -ttt -r "-i -T -n 2"; do
        # shellcheck disable=SC2086
        ltrace -f -L -F ltrace.conf $options -x "$family@libc.so*" -o log \
            "$target" >/dev/null 2>&1
        # Blocks that the C library keeps for a thread are freed at its end, unseen.
        "$malloc_trace" convert -q log p 2>"$err"
        recorded "ltrace $options" "ltrace log" $?
        is "ltrace $options: no line is strange" \
            "$(grep -c 'unreadable\|not a line' said)" 0
        like "ltrace $options: two threads" text '^thread 2 starts, kernel id '
    done
    ltrace -f -F ltrace.conf -o log "$target" >/dev/null 2>&1
    recorded "ltrace of the program's own calls" "ltrace log" 0
else
    skip "ltrace" "it is not installed, or may not trace"
fi

# Older releases of valgrind print aligned_alloc and posix_memalign as memalign.
if have valgrind && valgrind -q true >/dev/null 2>&1; then
    one_name='s/ posix_memalign$/ memalign/'
    mv want want_all
    sed "$one_name" want_all >want
    for options in "" "--tool=dhat --time-stamp=yes --dhat-out-file=/dev/null"; do
        # shellcheck disable=SC2086
        valgrind $options --trace-malloc=yes --log-file=log "$target" \
            >/dev/null 2>&1
        recorded "valgrind $options" "valgrind --trace-malloc=yes" 0 "$one_name"
    done
    mv want_all want

    # A result that stands in another line than its call, and arguments that
    # some releases print in other ways.
    cat >lines.cc <<'END'
#include <cstdint>
#include <cstdlib>
#include <new>
struct alignas(128) wide {
    char bytes[256];
    ~wide() {}
};
static void *volatile p;
int main() {
    p = reallocarray(nullptr, 200011, 1);
    p = reallocarray(p, 200012, 1);
    p = realloc(p, 0);
    p = malloc(SIZE_MAX / 4);
    p = new char[200013];
    delete[] static_cast<char *>(p);
    p = ::operator new(200014, std::align_val_t(64));
    ::operator delete(p, std::align_val_t(64));
    p = new wide[3];
    delete[] static_cast<wide *>(p);
}
END
    for name in memcheck dhat; do
        $CXX -std=c++17 -O0 -w -o lines lines.cc 2>"$err" || break
        valgrind --tool=$name --trace-malloc=yes --log-file=log ./lines \
            >/dev/null 2>&1
        fails_with "valgrind, $name: calls over two lines" 0 \
            "$malloc_trace" convert --to text log text
        is "valgrind, $name: all are read" "$(grep -c 'un[a-z]* [fl]' "$err")" 0
        like "valgrind, $name: and end" "$err" 'live at the end  *0 blocks'
        is "valgrind, $name: what failed, and an end by realloc" \
            "$(grep -c '^malloc([0-9]*) failed' text) $(grep -c freed text)" \
            "1 1"
        is "valgrind, $name: aligned blocks" \
            "$(sed -n 's/^slot.*\(, align \)/\1/p' text)" \
            ", align 64)
, align 128)"
    done
else
    skip "valgrind" "it is not installed, or does not run here"
fi

# heaptrack records a realloc as a free and an allocation, and no memalign, so
# that the raw recording has a free of an unknown block.
if have heaptrack && unpacks zstd && unpacks gzip; then
    sed '/100006/d; s/ .*//' want >want_heaptrack
    for raw in -r ""; do
        rm -f recording*
        # shellcheck disable=SC2086
        heaptrack $raw -o recording "$target" >/dev/null 2>&1
        status=3
        [ -n "$raw" ] || status=0
        fails_with "heaptrack $raw: converted" $status "$malloc_trace" convert \
            --to text recording* text
        like "heaptrack $raw: its format" "$err" "from heaptrack recording"
        calls text | sed '/100006/d; s/ .*//' >got
        check "heaptrack $raw: the calls of the target" diff want_heaptrack got
    done
else
    skip "heaptrack" "it is not installed, or what unpacks its files"
fi

# bpftrace prints lines of several processors, which sort puts into order.
script=$top_srcdir/malloc-trace-replay/formats/malloc_calls.bt
if have bpftrace && timeout 60 bpftrace -q -c /bin/true \
    -e 'uretprobe:libc:malloc /pid == cpid/ { @n = 1; }' >/dev/null 2>&1; then
    timeout 60 bpftrace -q -o lines -c "$target" "$script" >/dev/null 2>&1
    sort -n -s lines >log
    "$malloc_trace" convert -q log p 2>"$err"
    recorded bpftrace "lines of malloc_calls.bt" $?
    is "bpftrace: no line is strange" \
        "$(grep -c 'unreadable\|not a line\|lost' said)" 0
    like "bpftrace: two threads" text '^thread 2 starts, kernel id '
else
    skip "bpftrace" "it is not installed, or may not trace"
fi

# memray records what a library calls that Python loads; it has no alignments, and
# a realloc as a free and an allocation.
script=$top_srcdir/malloc-trace-replay/formats/memray_calls.py
if python3 -c "import memray" 2>/dev/null &&
    $CC -shared -fPIC -Dmain=run -o libtarget.so \
        "$top_srcdir/tests/integration/formats/tools_target.c" -lpthread; then
    echo 'import ctypes; ctypes.CDLL("./libtarget.so").run()' >program.py
    python3 -m memray run -q -o capture program.py >/dev/null 2>&1
    check "memray: its capture is printed" sh -c '"$@" >log' sh \
        python3 "$script" capture
    "$malloc_trace" convert --to text log text 2>"$err"
    like "memray: read as Android's" "$err" "from Android malloc_debug"
    sed 's/ .*//' want >want_memray
    calls text | sed 's/ .*//' >got
    check "memray: the calls of the target" diff want_memray got
    fails_with "memray: no capture" 1 python3 "$script" program.py
else
    skip "memray" "it is not installed"
fi
tap_end
