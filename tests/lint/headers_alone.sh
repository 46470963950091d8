#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each header compiles alone, in each build that it is meant for, and its guard
# ends with its name. The public ones are C99 and C++11 too.
. "$top_srcdir/tests/lint/lint.sh"

run ${CC:-cc} --version || skip_all "no compiler here"
lz4=$([ "${TCM_HAVE_LZ4:-no}" = yes ] && echo 1 || echo 0)
flags="-D_GNU_SOURCE -DTCM_HAVE_LZ4=$lz4 -fsyntax-only -Wall -Wextra -Werror"

# compile PATTERN FLAGS...: what the compiler says of the headers that match,
# each by itself.
compile() {
    names=$(list '*.h' | grep -E "^(src|malloc-trace-replay)/" |
        grep -E "$1")
    shift
    [ -z "$names" ] || (
        cd "$tree" || exit
        # shellcheck disable=SC2086
        ${CC:-cc} -x c -std=gnu11 $flags -I"$tree" -I"$tree/src" \
            -I"$tree/malloc-trace-replay" "$@" $names 2>&1
    )
}

alone() {
    compile '^src/(api|tracer)/' -DTCM_TRACING=1 -DTCM_OBJECT_WORDS=1 \
        -DTCM_DEBUG=0
    compile '^src/core/' -DTCM_TRACING=0 -DTCM_OBJECT_WORDS=0 -DTCM_DEBUG=0
    compile '^src/core/' -DTCM_TRACING=1 -DTCM_OBJECT_WORDS=1 -DTCM_DEBUG=1 \
        -DTCM_TESTING=1
    compile '^src/(base|traceformat|gperftools)/|^malloc-trace-replay/' \
        -DTCM_DEBUG=1
}

# A guard ends with the file's name in capitals, after its folder's or its
# layer's, and no two are the same.
guards() {
    names=$(list '*.h' | grep -E '^(src|malloc-trace-replay)/')
    # shellcheck disable=SC2086
    (cd "$tree" && awk '
        function check() {
            want = last
            sub(/.*\//, "", want)
            gsub(/[-.]/, "_", want)
            want = "_" toupper(want)
            if (substr(guard, length(guard) - length(want) + 1) != want)
                print last ": no guard that ends with " want
            else if (guard in seen)
                print last ": guard of " seen[guard]
            seen[guard] = last
        }
        FNR == 1 && NR > 1 { check() }
        FNR == 1 { guard = ""; last = FILENAME }
        /^#ifndef / && guard == "" { guard = $2 }
        END { check() }' $names)
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
