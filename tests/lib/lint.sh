# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034
# Helpers of the lint tests: harness.sh, and the files of the source tree.
#
# $tree is the tree to look at: the source tree, or a copy with a planted fault
# by which a test shows that it can fail.
. "$top_srcdir/tests/lib/harness.sh"
tree=$(cd "$top_srcdir" && pwd -P)

# list PATTERN...: files of the tree that belong to it, relative names. Those
# under version control where there is any; else (a distribution) all that the
# build does not make.
list() {
    (
        cd "$tree" || exit
        if [ "$tree" = "$(git rev-parse --show-toplevel 2>/dev/null)" ]; then
            # Also what is new and not ignored; not what is deleted.
            tap_gone=$(git ls-files --deleted)
            git ls-files --cached --others --exclude-standard -- "$@" |
                grep -Fxv -e "${tap_gone:-/}"
        else
            for tap_glob in "$@"; do
                find . -type f -name "${tap_glob##*/}" -print
            done | sed 's,^\./,,' |
                grep -Ev '^(_build|_inst|build[^/]*|autom4te.cache)/|^config.h$|^m4/(lt|libtool)'
        fi
    ) | sort -u
}

# objects FOLDER...: the objects under these folders of the build that are of
# its present sources. Others stay behind when a source is removed, or when
# another library or program takes it over: an object whose source is not there,
# or is younger. The name of an object is that of its source, behind that of its
# program and a hyphen if it has flags of its own.
objects() {
    list '*.c' '*.cc' | (cd "$tree" && xargs stat -c '%Y %n') \
        >"$work/tree_sources"
    (cd "$top_builddir" && find "$@" -name '*.c' -exec stat -c '%Y %n' {} +) \
        >"$work/built_sources"
    (cd "$top_builddir" && find "$@" -name '*.o' -exec stat -c '%Y %n' {} +) |
        awk -v tree="$work/tree_sources" -v built="$work/built_sources" '
        BEGIN {
            while ((getline < tree) > 0 || (getline < built) > 0) {
                sub(/\.cc?$/, "", $2)
                source[$2] = $1
            }
        }
        {
            name = $2
            sub(/\.o$/, "", name)
            sub(/\.libs\//, "", name)
            folder = file = name
            sub(/[^\/]*$/, "", folder)
            sub(/.*\//, "", file)
            while (!(folder file in source) && sub(/^[^-]*-/, "", file))
                continue
            if (folder file in source && source[folder file] <= $1)
                print $2
        }'
}

# plant FILE TEXT: makes $tree a copy of the sources in which FILE has a line
# more. Call unplant after. There is one copy for all of a test.
plant() {
    planted_from=$tree
    planted_file=$1
    if [ ! -d "$work/planted" ]; then
        mkdir "$work/planted"
        for tap_part in src malloc-trace-replay tests bench; do
            [ ! -d "$tree/$tap_part" ] || (
                cd "$tree" && find "$tap_part" '(' -name '*.[ch]' -o \
                    -name '*.cc' -o -name '*.sh' -o -name module.am ')' -print |
                    tar -cf - -T - | tar -xf - -C "$work/planted"
            )
        done
        # The sources may be read-only, as in distcheck.
        chmod -R u+w "$work/planted"
    fi
    mkdir -p "$(dirname "$work/planted/$1")"
    printf '%s\n' "$2" >>"$work/planted/$1"
    tree=$work/planted
}

unplant() {
    tree=$planted_from
    rm -f "$work/planted/$planted_file"
    [ ! -e "$tree/$planted_file" ] ||
        cat "$tree/$planted_file" >"$work/planted/$planted_file"
}

# clean COMMAND WHAT: passes if the command prints nothing; shows what it
# prints.
clean() {
    tap_found=$($1)
    if [ -z "$tap_found" ]; then
        pass "$2"
    else
        printf '%s\n' "$tap_found" | sed 's/^/# /' | head -n 40
        fail "$2"
    fi
}

# catches COMMAND WHAT FILE TEXT: passes if the command finds the planted line.
catches() {
    plant "$3" "$4"
    tap_found=$($1)
    unplant
    case $tap_found in
    *"$3"*) pass "finds $2" ;;
    *) fail "finds $2" ;;
    esac
}
