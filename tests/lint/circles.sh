#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No circles: no header includes itself, by whatever way, and no objects of the
# build call each other in a circle.
. "$top_srcdir/tests/lib/lint.sh"
need_command nm
need_command tsort

# circle: the members of a circle among pairs on stdin, nothing if there is none.
circle() {
    tsort 2>&1 >/dev/null | sed -n 's/^tsort: //p'
}

# Own headers are named from src or malloc-trace-replay.
include_circle() {
    list 'src/*.h' 'malloc-trace-replay/*.h' >headers
    (cd "$tree" && xargs awk '
        /^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*"/ {
            split($0, part, "\"")
            name = FILENAME
            sub(/^(src|malloc-trace-replay)\//, "", name)
            if (name != part[2])
                print name, part[2]
        }') <headers | circle
}

# "D file symbol" and "U file symbol" of all objects; the objects that a source
# has in several programs are one.
object_symbols() {
    objects src malloc-trace-replay |
        (cd "$top_builddir" && xargs nm -A 2>/dev/null) | awk '
        {
            colon = index($0, ".o:")
            file = substr($0, 1, colon - 1)
            sub(/\.libs\//, "", file)
            sub(/[^\/]*-/, "", file)
            kind = $(NF - 1)
            if (kind ~ /:U$/ || kind == "U")
                print "U", file, $NF
            else if (kind ~ /^[TDBRVW]$/)
                print "D", file, $NF
        }' | sort -u
}
# src/api/library.c names every exported function on purpose: see "The static
# archive in one piece" there.
call_circle() {
    awk '
        $1 == "E" { exported[$2] = 1 }
        $1 == "D" { definers[$3] = definers[$3] " " $2 }
        $1 == "U" && $2 == "src/api/library" {
            name = $3
            sub(/^tcmtest_/, "", name)
            if (name in exported)
                next
        }
        $1 == "U" {
            n = split(definers[$3], definer)
            for (i = 1; i <= n; i++)
                if (definer[i] != $2)
                    print $2, definer[i]
        }' exported symbols | sort -u | circle
}

cat "$top_srcdir"/src/exports/*.sym | tr ';{}' '\n' | tr -d ' \t' |
    sed -n 's/^[A-Za-z_][A-Za-z_0-9]*$/E &/p' | sort -u >exported
object_symbols >symbols
grep -q '^D src/core/heap ' symbols && grep -q '^U src/api/malloc ' symbols
result "the build has objects" $?

mkdir -p built/src/base/.libs
: >built/src/base/.libs/libx_la-lock.o
: >built/src/base/.libs/libx_la-removed.o
touch -d 2000-01-01 built/src/base/liby_a-lock.o
is "objects whose source was removed, or changed since, do not count" \
    "$(top_builddir=$work/built && objects src)" src/base/.libs/libx_la-lock.o

clean include_circle "headers include each other in no circle"
clean call_circle "objects call each other in no circle"

plant src/core/size_class.h '#include "core/heap.h"'
is "finds headers that include each other" \
    "$(include_circle | grep -x -e core/size_class.h -e core/heap.h | sort -u)" \
    "$(printf 'core/heap.h\ncore/size_class.h')"
unplant
echo "U src/core/meta_alloc tcm_heap_init" >>symbols
is "finds objects that call each other" \
    "$(call_circle | grep -x -e src/core/meta_alloc -e src/core/heap | sort -u)" \
    "$(printf 'src/core/heap\nsrc/core/meta_alloc')"
tap_end
