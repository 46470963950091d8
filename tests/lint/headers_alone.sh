#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each header compiles alone, in each build that it is meant for, and its guard
# has the name of its path. The public ones are C99 and C++11 too.
. "$top_srcdir/tests/lib/lint.sh"

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
    compile '^src/(api|sites|tracer)/' -DTCM_TRACING=1 -DTCM_OBJECT_WORDS=1 \
        -DTCM_DEBUG=0
    compile '^src/core/' -DTCM_TRACING=0 -DTCM_OBJECT_WORDS=0 -DTCM_DEBUG=0
    compile '^src/core/' -DTCM_TRACING=1 -DTCM_OBJECT_WORDS=1 -DTCM_DEBUG=1 \
        -DTCM_TESTING=1
    compile '^src/(base|traceformat|gperftools)/|^malloc-trace-replay/' \
        -DTCM_DEBUG=1
}

# The guard's name is the header's path in capitals, TCM_ for src/ and TOOL_ for
# malloc-trace-replay/ (a public header's name is the path that programs
# include); its two lines open the header, a blank one follows.
guards() {
    names=$(list '*.h' | grep -E '^(src|malloc-trace-replay|tests|bench)/')
    # shellcheck disable=SC2086
    (cd "$tree" && awk '
        function check() {
            if (first != "#ifndef " want || second != "#define " want ||
                third != "")
                print last ": does not open with the guard " want
        }
        FNR == 1 {
            if (NR > 1)
                check()
            want = last = FILENAME
            if (!sub(/^src\/gperftools\//, "gperftools/", want) &&
                !sub(/^src\//, "tcm/", want))
                sub(/^malloc-trace-replay\//, "tool/", want)
            want = toupper(want)
            gsub(/[^A-Z0-9]/, "_", want)
            lines = 0
            first = second = third = "none"
        }
        /^#/ || lines {
            lines++
            if (lines == 1)
                first = $0
            else if (lines == 2)
                second = $0
            else if (lines == 3)
                third = $0
        }
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
clean guards "each guard has the name of the header's path"
if echo 'int x;' | ${CC:-cc} -x c++ -fsyntax-only - 2>/dev/null; then
    clean public "the public headers are C99 and C++11"
else
    skip "the public headers are C99 and C++11" "no C++ compiler"
fi
catches alone "a header that needs another" src/base/planted.h \
    'static inline uint64_t f(struct tcm_lock *l) { return l->state; }'
catches guards "a header without guard" src/base/planted.h 'int f(void);'
catches guards "a guard of another name" tests/lib/planted.h \
    '#ifndef PLANTED_H
#define PLANTED_H

#endif'
tap_end
