#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No global function that is not used: each one that an object of the build
# defines is referenced by another object, exported, or named by another source
# (code of another configuration, an inline function, text of the assembler).
# The names of those of the library have the prefix of their layer.
. "$top_srcdir/tests/lib/lint.sh"
need_command nm
[ -e "$minimal" ] || skip_all "no shared library in this build"

# symbols FOLDER...: the symbols of the objects of these folders.
symbols() {
    objects "$@" | (cd "$top_builddir" && xargs nm 2>/dev/null)
}
# Names of the renamed build aside.
symbols src malloc-trace-replay |
    awk '$2 == "T" && $3 != "main" && $3 !~ /^tcmtest_/ { print $3 }' |
    sort -u >defined
symbols src malloc-trace-replay tests bench |
    awk '$1 == "U" { print $2 }' | sort -u >referenced
# The libraries' functions, and those of replay that stand before the C library's.
{
    cat "$top_srcdir"/src/exports/*.sym | tr ';{}' '\n' | tr -d ' \t'
    sed -n 's/.*--defsym=[a-z_]*=\([a-z_]*\).*/\1/p' "$top_srcdir/src/module.am"
    nm -D --defined-only "$replay" | awk '$2 == "T" { print $3 }'
} | sort -u >exported

# unused NAMES: those of a list that no other source names. A header that names
# one once declares it and no more.
unused() {
    (cd "$tree" && find src malloc-trace-replay tests bench -name '*.[ch]' \
        -o -name '*.cc') | sort >sources
    (cd "$tree" && xargs awk -v list="$1" '
        BEGIN {
            while ((getline name < list) > 0)
                wanted[name] = 1
        }
        {
            line = $0
            text = line ~ /".*"/
            gsub(/[^A-Za-z0-9_]+/, " ", line)
            n = split(line, word, " ")
            for (i = 1; i <= n; i++)
                if (word[i] in wanted) {
                    if (text)
                        used[word[i]] = 1
                    count[word[i], FILENAME]++
                }
        }
        END {
            for (pair in count) {
                split(pair, part, SUBSEP)
                header = part[2] ~ /\.h$/
                if (header && count[pair] > 1)
                    used[part[1]] = 1
                files[part[1]] += !header
            }
            for (name in wanted)
                if (!used[name] && files[name] < 2)
                    print name
        }') <sources | sort
}

dead_functions() {
    sort -u defined | comm -23 - referenced | comm -23 - exported >candidates
    unused "$PWD/candidates"
}

# Functions and variables of src whose names lack the prefix of their layer,
# from pairs of prefix and name. The renamed build has tcmtest_ before what is
# exported.
for layer in base:tcm core:tcm api:tcm traceformat:mtf sites:mts tracer:mtr; do
    symbols "src/${layer%:*}" | awk -v prefix="${layer#*:}" '
        $2 ~ /^[TDBR]$/ && $3 !~ /^tcmtest_/ { print prefix, $3 }'
done | sort -u >named
unprefixed() {
    awk '$2 !~ "^" $1 "_" { print $2 }' named | sort -u | comm -23 - exported
}

[ -s defined ] && [ -s referenced ]
result "the build has objects" $?
clean dead_functions "global functions are used by others"
echo tcm_planted >>defined
is "finds one that is not" "$(dead_functions | grep -cx tcm_planted)" 1
clean unprefixed "global names of src have the prefix of their layer"
echo "mtf planted" >>named
is "finds one that has not" "$(unprefixed)" planted
tap_end
