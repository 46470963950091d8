#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Comments and documents name no source file that does not exist, and link to
# no document or section that does not; the picture in architecture.md is the
# tree.
. "$top_srcdir/tests/lib/lint.sh"

documents() {
    list '*.md'
}

# Names with a folder, as they are written in comments: traceformat/varint.h.
dead_sources() {
    # shellcheck disable=SC2046
    (cd "$tree" && grep -oHE '\b(src|base|core|traceformat|sites|tracer|api|common|cmd|malloc-trace-replay|tests|bench|doc|gperftools)/[A-Za-z0-9_/-]+\.(c|h|cc|sh|md|py)\b' \
        $(list '*.c' '*.h' '*.cc' '*.md' |
            grep -E '^(src|malloc-trace-replay|tests|doc|bench|[A-Z])')) |
        sort -t : -u -k 2 | while IFS=: read -r file name; do
        for root in . src malloc-trace-replay tests tests/unit; do
            [ ! -e "$tree/$root/$name" ] || continue 2
        done
        echo "$file: $name"
    done
}

dead_links() {
    for file in $(documents); do
        # Not what stands between backticks: that is code, as new[](size).
        sed 's/`[^`]*`//g' "$tree/$file" | grep -oE '\]\([^)#]+' |
            sed 's/^](//' | sort -u | while read -r link; do
            case $link in http:* | https:* | mailto:*) continue ;; esac
            [ -e "$tree/$(dirname "$file")/$link" ] ||
                echo "$file: $link"
        done
    done
}

# anchors FILE: the names by which links reach its headings.
anchors() {
    sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' |
        sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

dead_anchors() {
    for file in $(documents); do
        sed 's/`[^`]*`//g' "$tree/$file" | grep -oE '\]\([^):#]*#[^)]+' |
            sed 's/^](//' | sort -u | while IFS='#' read -r link anchor; do
            target=$tree/$(dirname "$file")/$link
            [ -n "$link" ] || target=$tree/$file
            [ ! -e "$target" ] || anchors "$target" | grep -qxF -e "$anchor" ||
                echo "$file: $link#$anchor"
        done
    done
}

# The folders with sources, each with the last part of its name in the picture.
drawn() {
    sed -n '/^    src\/base  /,/^$/p' "$top_srcdir/doc/architecture.md"
}
folders() {
    list '*.c' '*.h' '*.sym' | sed 's,/[^/]*$,,' |
        grep -E '^(src|malloc-trace-replay|bench|tests/[a-z]*)' |
        grep -Ev '^tests/(unit|data|fuzz)/|^malloc-trace-replay/cmd$|^src$' |
        sort -u
}
undrawn_folders() {
    folders | while read -r folder; do
        drawn | grep -Eq "(^|[ /])${folder##*/}([ ,]|\$)" || echo "$folder"
    done
}

clean dead_sources "files that are named exist"
clean dead_links "links of documents lead somewhere"
clean dead_anchors "links to sections, too"
catches dead_anchors "a link to no section" doc/planted.md \
    '[there](#the-section-that-is-not)'
catches dead_sources "a name of no file" src/base/planted.c \
    '/* see core/no_such_file.h */'
clean undrawn_folders "architecture.md draws each folder"
plant malloc-trace-replay/undrawn/planted.c 'int x;'
undrawn=$(undrawn_folders)
unplant
is "finds a folder that it does not draw" "$undrawn" malloc-trace-replay/undrawn
tap_end
