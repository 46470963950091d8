#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Both libraries export what src/exports lists and nothing else, need only the C
# library, keep their thread-local storage small, and have no lazy binding.
. "$top_srcdir/tests/lib/lint.sh"
need_command readelf
[ -e "$minimal" ] || skip_all "no shared library in this build"

listed() {
    sed -e '/^global:/d' -e '/^local:/,$d' -e 's/[{}]//g' "$1" | tr ';' '\n' |
        tr -d ' \t' | grep -v '^$' | sort
}

exported() {
    readelf -W --dyn-syms "$1" |
        awk '$7 != "UND" && ($5 == "GLOBAL" || $5 == "WEAK") &&
             $4 != "OBJECT" || $4 == "OBJECT" && $7 != "UND" && $7 != "ABS" {
                 sub(/@.*/, "", $8); print $8 }' | grep -v '^$' | sort -u
}

# Names that src/api/fork.c defines for one C library only.
other=fflush
readelf -Wd "$minimal" | grep -q 'libc\.so\.' || other=__register_atfork
listed "$top_srcdir/src/exports/malloc.sym" | grep -vx "$other" >listed
[ -s listed ]
result "malloc.sym lists names" $?

for name in minimal tracing; do
    case $name in
    minimal) library=$minimal ;;
    tracing) library=$tracing ;;
    esac
    exported "$library" >exported
    is "$name: nothing else is exported" "$(comm -13 listed exported)" ""
    is "$name: all of it is" "$(comm -23 listed exported)" ""
    is "$name: needs the C library alone" \
        "$(readelf -Wd "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -Ev '^(libc|libdl|libpthread|ld-linux)[-.]' | tr '\n' ' ')" ""
    readelf -Wd "$library" | grep -Eq 'BIND_NOW|FLAGS.*NOW'
    result "$name: no lazy binding" $?
    tls=$(readelf -Wl "$library" | awk '$1 == "TLS" { print $6 }')
    if grep -q 'TCM_DEBUG=1' "$top_builddir/config.status"; then
        skip "$name: thread-local storage" "a debug build has more"
    else
        [ "$((${tls:-0}))" -lt 128 ]
        result "$name: thread-local storage below 128 bytes ($((${tls:-0})))" $?
    fi
    readelf -Wd "$library" | grep -q 'STATIC_TLS'
    result "$name: initial-exec thread-local storage" $?
    # gperftools' name is there only where configure was asked for it.
    soname=libtcmalloc_minimal-malloc-trace.so.4
    ! grep -q "enable-gperftools-soname" "$top_builddir/config.log" ||
        soname=libtcmalloc_minimal.so.4
    [ $name = minimal ] || soname=libtcmalloc_minimal_tracing.so.4
    is "$name: soname" \
        "$(readelf -Wd "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" \
        "$soname"
    is "$name: no text relocations" \
        "$(readelf -Wd "$library" | grep -c TEXTREL)" 0
done
tap_end
