#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs written for gperftools' C headers: compiled with this project's
# headers and with gperftools' own, as C and as C++, they run on both libraries.
# Everything that the headers declare is declared by ours, exported, and called
# here.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
: "${CC:=cc}" "${CXX:=c++}"
$CC --version >/dev/null 2>&1 || skip_all "no compiler"
cd "$work" || exit 99
source=$here/install/tc_api.c
ours=$top_srcdir/src/gperftools
cp "$source" tc_api.cc

# The folder with gperftools' headers, or nothing; not those that this project
# installed.
theirs=
for dir in /usr/include /usr/local/include; do
    [ -e "$dir/gperftools/malloc_extension.h" ] && theirs=$dir/gperftools
done

# names FOLDER: what the three headers declare.
names() {
    cat "$1/tcmalloc.h" "$1/nallocx.h" "$1/malloc_extension_c.h" |
        sed 's,/\*.*\*/,,; /\/\*/,/\*\//d' |
        grep -oE '(tc_|MallocExtension_|nallocx)[A-Za-z_]* *\(' |
        tr -d ' (' | sort -u
}

exported() {
    nm -D --defined-only "$1" | awk '{ print $3 }' | sort -u
}

names "$ours" >declared
at_least "the headers declare functions" "$(wc -l <declared)" 55
for name in $(cat declared); do
    grep -q "$name(" "$source" || echo "$name"
done >uncalled
is "each is called by the program" "$(cat uncalled)" ""
if [ -n "$theirs" ]; then
    names "$theirs" >theirs
    is "none of gperftools' is missing" "$(comm -23 theirs declared)" ""
else
    skip "none of gperftools' is missing" "gperftools' headers are not here"
fi
for l in "$minimal" "$tracing"; do
    [ -e "$l" ] || continue
    if have nm; then
        exported "$l" >exported
        is "$(basename "$l") exports each" "$(comm -23 declared exported)" ""
    else
        skip "$(basename "$l") exports each" "no nm"
    fi
done

# Names of one function: a recording shows them as the twin that it knows.
twins() {
    nm -D --defined-only "$1" | awk '
        { at[$3] = $1 }
        END {
            n = split("malloc calloc realloc free cfree memalign " \
                      "posix_memalign valloc pvalloc mallopt malloc_stats " \
                      "free_sized", name, " ")
            for (i = 1; i <= n; i++)
                pair["tc_" name[i]] = name[i]
            n = split("malloc calloc realloc reallocarray free cfree " \
                      "memalign valloc pvalloc mallopt", name, " ")
            for (i = 1; i <= n; i++)
                pair["__libc_" name[i]] = name[i]
            pair["__posix_memalign"] = "posix_memalign"
            pair["__libc_mallinfo"] = "tc_mallinfo"
            pair["tc_malloc_size"] = "malloc_usable_size"
            pair["malloc_size"] = "malloc_usable_size"
            pair["tc_nallocx"] = "nallocx"
            nothrow = "RKSt9nothrow_t"
            align = "St11align_val_t"
            for (i = 0; i < 2; i++) {
                array = i ? "array" : ""
                make = "_Zn" (i ? "a" : "w") "m"
                drop = "_Zd" (i ? "a" : "l") "Pv"
                pair["tc_new" array] = make
                pair["tc_new" array "_nothrow"] = make nothrow
                pair["tc_new" array "_aligned"] = make align
                pair["tc_new" array "_aligned_nothrow"] = make align nothrow
                pair["tc_delete" array] = drop
                pair["tc_delete" array "_sized"] = drop "m"
                pair["tc_delete" array "_nothrow"] = drop nothrow
                pair["tc_delete" array "_aligned"] = drop align
                pair["tc_delete" array "_sized_aligned"] = drop "m" align
                pair["tc_delete" array "_aligned_nothrow"] = drop align nothrow
            }
            for (p in pair)
                if (at[p] == "" || at[p] != at[pair[p]])
                    print p
        }'
}
for l in "$minimal" "$tracing"; do
    [ -e "$l" ] && have nm || continue
    is "$(basename "$l"): other names are names of the same functions" \
        "$(twins "$l")" ""
done

# The document lists the functions of gperftools' library that ours lack, and
# for the version that it names no other ones. C++ names are left out.
for theirs_so in /usr/lib/*/libtcmalloc_minimal.so.4; do
    [ -e "$theirs_so" ] && have nm || {
        skip "what is missing is documented" "gperftools' library is not here"
        continue
    }
    sed -n '/^## Not provided/,/^## [^N]/p' "$top_srcdir/doc/extension.md" |
        sed -n 's/^    //p' | tr -s ' ' '\n' | grep . | sort >missing
    exported "$theirs_so" | grep -v '^_Z' >theirs
    exported "$minimal" >exported
    comm -23 theirs exported >lacking
    # Names of later versions stand in its text.
    sed -n '/^## Not provided/,/^## [^N]/p' "$top_srcdir/doc/extension.md" |
        grep -o '`[A-Za-z_0-9]*`' | tr -d '`' | sort -u - missing >named
    is "what is missing is documented" "$(comm -23 lacking named)" ""
    grep -q '^tc_mallinfo2$' theirs ||
        is "and only that" "$(comm -13 lacking missing)" ""
done

# Types agree: both headers declare the same functions, without contradiction.
if [ -n "$theirs" ]; then
    {
        echo "#include \"$ours/tcmalloc.h\""
        sed 's/^#undef PERFTOOLS_NOTHROW//' "$theirs/tcmalloc.h"
        echo "#include \"$ours/nallocx.h\""
        echo "#undef MALLOCX_LG_ALIGN"
        cat "$theirs/nallocx.h"
        echo "#include \"$ours/malloc_extension_c.h\""
        # an enumeration cannot be defined twice
        sed -e 's/\([ (]\)MallocExtension_Ownership/\1THEIR_Ownership/' \
            -e 's/MallocExtension_k/THEIR_k/g' \
            -e 's/^} MallocExtension_Own/} THEIR_Own/' \
            -e '/THEIR_Ownership MallocExtension_GetOwnership/d' \
            "$theirs/malloc_extension_c.h"
    } >both.h
    for language in "c -std=gnu11" "c++ -std=gnu++11" "c++ -std=gnu++17"; do
        compiler=$CC
        [ "${language%% *}" = c ] || compiler=$CXX
        # shellcheck disable=SC2086
        check "the declarations agree: $language" $compiler -x $language \
            -fsyntax-only both.h
    done
else
    skip "the declarations agree" "gperftools' headers are not here"
fi

# runs NAME HEADERS LIBRARY COMMAND...
runs() {
    runs_name=$1
    runs_headers=$2
    shift 3
    check "$runs_name: compiles and links" "$@" -Wall -Wextra -Werror \
        -fno-builtin -I"$runs_headers" -o program -L"$(dirname "$minimal")" \
        -l"$runs_library" -Wl,-rpath,"$(dirname "$minimal")" -pthread
    timeout 60 ./program >out 2>err
    is "$runs_name: runs" $? 77
    grep -v MALLOC err | grep -v -- ---- | diag
}

for library in minimal minimal_tracing; do
    [ -e "$(dirname "$minimal")/libtcmalloc_$library.so" ] || continue
    runs_library=tcmalloc_$library
    for headers in ours theirs; do
        dir=$top_srcdir/src
        if [ $headers = theirs ]; then
            dir=${theirs%/gperftools}
            [ -n "$dir" ] || {
                skip "$library, their headers" "they are not here"
                continue
            }
        fi
        runs "$library, $headers, C" "$dir" "$runs_library" \
            $CC -std=gnu11 "$source"
        $CXX --version >/dev/null 2>&1 || continue
        for standard in gnu++11 gnu++17; do
            runs "$library, $headers, $standard" "$dir" "$runs_library" \
                $CXX -std=$standard tc_api.cc
        done
    done
done

# Programs linked with gperftools' library run with ours in its place.
for theirs_so in /usr/lib/*/libtcmalloc_minimal.so.4; do
    [ -n "$theirs" ] && [ -e "$theirs_so" ] || continue
    check "linked with gperftools" $CXX -std=gnu++17 -fno-builtin tc_api.cc \
        -I"${theirs%/gperftools}" -o program "$theirs_so" -pthread
    mkdir -p place
    ln -sf "$minimal" place/libtcmalloc_minimal.so.4
    LD_LIBRARY_PATH=$work/place timeout 60 ./program >out 2>err
    is "linked with gperftools, run with ours" $? 77
    grep -v MALLOC err | diag
done
tap_end
