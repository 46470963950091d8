#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each header compiles alone, in each build that it is meant for, and its guard
# is its path. The public ones are C90 and C++ too.
. "$top_srcdir/tests/lint/lint.sh"

run ${CC:-cc} --version || skip_all "no compiler here"
lz4=$([ "${TCM_HAVE_LZ4:-no}" = yes ] && echo 1 || echo 0)
flags="-D_GNU_SOURCE -DTCM_HAVE_LZ4=$lz4 -fsyntax-only -Wall -Wextra -Werror"

# compile HEADER FLAGS...: a message if it does not compile alone.
compile() {
    header=$1
    shift
    echo "#include \"$header\"" |
        ${CC:-cc} -x c -std=gnu11 $flags -I"$tree" -I"$tree/src" \
            -I"$tree/malloc-trace-replay" "$@" - 2>&1 |
        sed "s,^,$header: ,"
}

headers() {
    list '*.h' | grep -E '^(src|malloc-trace-replay)/'
}

alone() {
    for header in $(headers); do
        case $header in
        src/api/* | src/tracer/*)
            compile "$header" -DTCM_TRACING=1 -DTCM_OBJECT_WORDS=1 \
                -DTCM_DEBUG=0
            ;;
        src/core/*)
            compile "$header" -DTCM_TRACING=0 -DTCM_OBJECT_WORDS=0 \
                -DTCM_DEBUG=0
            compile "$header" -DTCM_TRACING=1 -DTCM_OBJECT_WORDS=1 \
                -DTCM_DEBUG=1 -DTCM_TESTING=1
            ;;
        *)
            compile "$header" -DTCM_DEBUG=1
            ;;
        esac
    done
}

# A guard ends with the file's name in capitals, after its folder's or its
# layer's, and no two are the same.
guards() {
    for header in $(headers); do
        want=$(basename "$header" | tr 'a-z.-' 'A-Z__')
        guard=$(sed -n 's/^#ifndef //p' "$tree/$header" | head -n 1)
        case $guard in
        *_"$want") echo "$guard $header" >>guards_seen ;;
        *) echo "$header: no guard that ends with $want" ;;
        esac
    done
    sort guards_seen | awk '$1 == last { print $2 ": guard of another" }
        { last = $1 }'
    rm -f guards_seen
}

public() {
    for header in $(list 'src/gperftools/*.h' | grep '^src/gperftools/'); do
        for language in "c -std=c99 -pedantic" "c++ -std=c++11"; do
            # shellcheck disable=SC2086
            echo "#include <${header#src/}>" |
                ${CC:-cc} -x $language -fsyntax-only -Wall -Wextra -Werror \
                    -I"$tree/src" - 2>&1 | sed "s,^,$header: ,"
        done
    done
}

clean alone "each header compiles alone"
clean guards "each guard has the header's name"
if echo 'int x;' | ${CC:-cc} -x c++ -fsyntax-only - 2>/dev/null; then
    clean public "the public headers are C99 and C++11"
else
    skip "the public headers are C99 and C++11" "no C++ compiler"
fi
catches alone "a header that needs another" src/base/planted.h \
    'static inline uint64_t f(struct tcm_lock *l) { return l->state; }'
catches guards "a header without guard" src/base/planted.h 'int f(void);'
tap_end
