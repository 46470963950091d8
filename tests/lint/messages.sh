#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every line that the recorder says, every notice that it writes into a trace,
# every refusal of the control socket and every variable of it is explained in
# doc/tracing.md, and what is explained there is said.
. "$top_srcdir/tests/lib/lint.sh"

page() { tr "\n" " " <"$top_srcdir/doc/tracing.md" | tr -s " "; }

# flat FILE: without line ends; literals that stand side by side are one.
flat() { tr '\n' ' ' <"$1" | tr -s ' ' | sed 's/" "//g'; }

# sources: files whose texts and variables count.
sources() { list 'src/*.c' | grep -E '^src/(sites|tracer|preload)/'; }

# Texts of calls: "FILE: text".
said() {
    sources | while read -r file; do
        flat "$tree/$file" |
            grep -oE '(mtr_fail\(rec|mtr_warn\(|print_message\(|refuse\(s),? ?"[^"]*"|MTF_NOTICE_[A-Z_]+, ?"[^"]*"' |
            sed 's/^[^"]*"//; s/\\n"$//; s/"$//; s/^libmalloc_trace_ctl: //' |
            sed "s,^,$file: ,"
    done | sort -u
}

unexplained() {
    page >"$work/page"
    said | while IFS= read -r line; do
        grep -qF "\`${line#*: }" "$work/page" || echo "$line"
    done
}

# "FILE: variable".
variables() {
    sources | while read -r file; do
        grep -ohE '(tcm_env_[a-z0-9_]+|getenv)\("[A-Z_0-9]+"' "$tree/$file" |
            sed "s,.*(\",$file: ,; s,\",,"
    done | sort -u
    echo "OWNER: TCMALLOC_TRACE_OWNER"
}

unlisted() {
    variables | while read -r line; do
        name=${line#*: }
        for document in tracing environment; do
            grep -qE "^\| $name \|" "$top_srcdir/doc/$document.md" ||
                [ "$name" = TMPDIR ] || [ "$name" = LD_PRELOAD ] || echo "$line is not in $document.md"
        done
    done
}

# Lines of the page's tables of messages.
unsaid() {
    said | sed "s/^[^:]*: //" >"$work/said"
    sed -n '/^## Messages/,/^## /p' "$top_srcdir/doc/tracing.md" |
        sed -n 's/^| `\([^`]*\)` |.*/\1/p' |
        sed 's/ NAME.*//; s/: REASON.*//' | while IFS= read -r text; do
        grep -qxF "$text" "$work/said" || echo "nobody says: $text"
    done
}

[ "$(said | wc -l)" -ge 15 ]
result "the texts are found" $?
clean unexplained "every line and notice is explained"
clean unsaid "and no others"
clean unlisted "every variable is listed"
catches unexplained "a new line" src/tracer/planted.c \
    '    mtr_fail(rec, "cannot do what was planted", 0);'
catches unlisted "a new variable" src/tracer/planted.c \
    '    tcm_env_bool("TCMALLOC_TRACE_PLANTED");'
tap_end
