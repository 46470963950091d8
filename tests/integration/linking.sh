#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs linked with the libraries, shared and static, instead of preloading.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$lib" "$tlib"
: "${CC:=cc}" "${CXX:=c++}"
$CC --version >/dev/null 2>&1 || skip_all "no compiler"
cat >"$work/a.c" <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <stdbool.h>
#include <gperftools/thread_cache_switch.h>
static void *thread(void *arg) { free(arg); return malloc(80001); }
int main(void) {
    pthread_t id;
    void *p = malloc(80000), *q;
    struct ThreadCacheState *s;
    if (pthread_create(&id, 0, thread, p) || pthread_join(id, &q))
        return 2;
    free(q);
    return release_malloc_thread_cache(&s) && set_malloc_thread_cache(s) ? 21 : 1;
}
C
cat >"$work/a.cc" <<'C'
#include <new>
#include <string>
#include <vector>
int main() {
    std::vector<std::string> v(1000, std::string(100, 'x'));
    volatile size_t huge = (size_t)1 << 62;
    try {
        delete[] new char[huge];
    } catch (const std::bad_alloc &) {
        return v.size() == 1000 ? 22 : 1;
    }
    return 2;
}
C
dir=$(dirname "$lib")
cd "$work" || exit 99

# build NAME COMMAND...
build() {
    build_name=$1
    shift
    check "$build_name: links" "$@"
}

for name in minimal minimal_tracing; do
    build "$name, shared" $CC -o shared a.c -I"$top_srcdir/src" \
        -L"$dir" -ltcmalloc_$name -Wl,-rpath,"$dir" -pthread
    timeout 60 ./shared
    is "$name, shared: runs" $? 21
    is "$name, shared: by the name that gperftools' has" \
        "$(ldd ./shared | grep -c "libtcmalloc_$name.so.4 ")" 1
    build "$name, shared, C++" $CXX -o sharedxx a.cc \
        -L"$dir" -ltcmalloc_$name -Wl,-rpath,"$dir" -pthread
    timeout 60 ./sharedxx
    is "$name, shared, C++: runs" $? 22
    archive=$dir/libtcmalloc_$name.a
    if [ -e "$archive" ]; then
        # The archive of the tracing library needs liblz4 of the system.
        lz4=
        if [ $name = minimal_tracing ] && [ "${TCM_HAVE_LZ4:-yes}" != no ]; then
            lz4=-llz4
        fi
        build "$name, archive" $CC -o static a.c -I"$top_srcdir/src" \
            "$archive" $lz4 -pthread
        timeout 60 ./static
        is "$name, archive: runs" $? 21
        build "$name, archive, C++" $CXX -o staticxx a.cc "$archive" $lz4 \
            -pthread
        timeout 60 ./staticxx
        is "$name, archive, C++: runs" $? 22
    else
        skip "$name, archive" "not built"
    fi
done

# Linked or preloaded, what is recorded is the same.
[ -x "$post" ] && [ -n "$python" ] || { done_testing; }
for how in shared static; do
    [ -x $how ] || continue
    TCMALLOC_TRACE_OUTPUT=$work/$how.$suffix timeout 60 ./$how
    is "$how, recording: runs" $? 21
    rm -f json
    "$post" --quiet --json json "$work/$how.$suffix" p 2>err
    is "$how, recording: whole" "$(json json complete clean_end \
        unmatched_frees)" "true true 0"
    at_least "$how, recording: events" "$(json json events)" 4
    diag <err
done
done_testing
