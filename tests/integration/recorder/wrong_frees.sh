#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace report --errors: each wrong free of a program is told, by kind
# and with the function that did it, in each mode of sites; the program lives
# on, with a heap that is whole; and nothing is told of what is right.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$built/recorder/wrong_frees_target" "$malloc_trace"
command -v python3 >/dev/null || skip_all "python3 is not installed"
target=$built/recorder/wrong_frees_target
[ -x "$built/recorder/.libs/wrong_frees_target" ] &&
    target=$built/recorder/.libs/wrong_frees_target
# Such a build stops at a size of another class.
sizes=2
if grep -q 'TCM_DEBUG=1' "$top_builddir/config.status"; then
    export WITHOUT_SIZES=1
    sizes=0
fi
names=yes
case $("$malloc_trace" --version) in
*'elfutils yes'*) ;;
*) names=no ;;
esac

# $1: trace. "kind count" of its errors.
kinds() {
    "$malloc_trace" report --errors -q --to=json -o errors.json "$1"
    status=$?
    python3 - <<'PY'
import json
rows = {}
for r in json.load(open("errors.json"))["rows"]:
    rows[r["kind"]] = rows.get(r["kind"], 0) + r["count"]
print(" ".join("%s %d" % k for k in sorted(rows.items())))
PY
    return $status
}

# Functions that do wrong and were told, and those that made the blocks: all
# rows of a function must name it in both, but for what is no block.
functions() {
    python3 - <<'PY'
import json, re
kinds = {"twice": "double_free", "inside": "inside", "no": "no_block",
         "kind": "other_kind", "size": "other_size"}
pattern = re.compile(r"\b((twice|inside|no|kind|size)_[a-z_]+)")
def first(deed):
    for frame in (deed or {}).get("stack", []):
        m = pattern.match(frame)
        if m:
            return m.group(1)
for r in json.load(open("errors.json"))["rows"]:
    wrong, made = first(r["wrong"]), first(r["made"])
    if wrong is None and r["made"] is not None:
        wrong = made
    if (wrong is None or kinds[wrong.split("_")[0]] != r["kind"] or
            (r["made"] is not None and made != wrong)):
        print("odd:", wrong, made, r["kind"])
PY
}

# $1: kinds, and how often
want() {
    echo "double_free 10 inside $1 no_block 3 other_kind 7$2"
}
some=' other_size 2' all=' other_size 3'
[ "$sizes" = 2 ] || some='' all=''

for mode in none caller stack lang; do
    TCMALLOC_TRACE_CHECK_FREES=0 "$malloc_trace" record -q --sites=$mode \
        -o t "$target" >out
    is "$mode: the program lives on" "$(cat out)" end
    is "$mode: each is told" "$(kinds t)" \
        "$(want 2 "$some")"
    kinds t >/dev/null
    is "$mode: exit status" $? 4
    "$malloc_trace" record -q --sites=$mode --check-frees -o t "$target" all \
        >out
    is "$mode: it lives on when each free is looked at" "$(cat out)" end
    is "$mode: then more are told" "$(kinds t)" "$(want 5 "$all")"
    if [ $mode = stack ] && [ $names = yes ]; then
        is "$mode: with who did it" "$(functions)" ""
    fi
done
if [ $names = yes ]; then
    "$malloc_trace" record -q --sites=stack --free-sites -o t "$target" all \
        >out
    kinds t >/dev/null
    is "frees with sites: who did it" "$(functions)" ""
    "$malloc_trace" report --errors t >text
    like "and who freed it first" text '^    freed by free$'
else
    skip "frees with sites" "no names without libdw"
fi
like "a line of the text" text '^double free: 1 time, block of 2.86 MiB'
"$malloc_trace" dump t >lines
like "a line of the dump" lines 'wrong free: inside a block, #[0-9]*, byte 16'
check "postprocess passes over them" "$postprocess" -q --json p.json t p
# Frees by another kind of call or with another size are carried out.
told=$("$malloc_trace" report --errors -q --to=json -o - t | python3 -c '
import json, sys
print(sum(r["count"] for r in json.load(sys.stdin)["rows"]
          if r["kind"] in ("double_free", "inside", "no_block")))')
[ "$told" -gt 2 ]
result "frees that were not carried out: $told" $?
is "postprocess counts them" "$(sed -n 's/.*"wrong_frees": \([0-9]*\).*/\1/p' \
    p.json)" "$told"
for trace in t p; do
    "$malloc_trace" info "$trace" >text
    like "info $trace counts them" text "^  live at end .*; $told wrong frees"
    "$malloc_trace" report $trace >text
    like "report $trace points to them" text "^$told wrong frees, .* --errors "
done
"$malloc_trace" leaks t >text
like "so does leaks" text "^$told wrong frees, .* --errors "

# Nothing of this may be told of what is right.
right() {
    what=$1
    shift
    "$@" >out
    is "$what: runs" $? 0
    "$malloc_trace" report --errors t >text 2>err
    case $? in 0 | 3) good=0 ;; *) good=1 ;; esac
    sed 's/^/# /' text
    result "$what: nothing is told" $good
}
for mode in none stack; do
    right "$mode: threads" \
        "$malloc_trace" record -q --sites=$mode -o t "$target" clean
    right "$mode: each is looked at" \
        "$malloc_trace" record -q --sites=$mode --check-frees -o t "$target" \
        clean
    right "$mode: drops" env TCMALLOC_TRACE_OVERFLOW=drop \
        TCMALLOC_TRACE_BUFFER_MB=1 \
        "$malloc_trace" record -q --sites=$mode -o t "$target" clean
done
# A recording begun by call overwrites the last one of that name: it has the
# frees of blocks that were made while nothing was recorded.
for check in 0 1; do
    rm -f again
    TCMALLOC_TRACE_OUTPUT=$work/t LD_PRELOAD=$tracing \
        TCMALLOC_TRACE_CHECK_FREES=$check "$target" again "$work/again" 2>err
    is "start and stop, check $check: runs" $? 0
    "$malloc_trace" dump again >text
    like "they are known to be of no recording" text 'untraced_frees=600 '
    "$malloc_trace" report --errors again >text
    is "and nothing is told" $? 0
done
right "python3" "$malloc_trace" record -q -o t python3 -c \
    'import json, re; print(len(json.dumps(list(range(100000)))))'
fails_with "standard input is refused" 2 "$malloc_trace" report --errors -
fails_with "so are other forms" 2 "$malloc_trace" report --errors \
    --to=csv -o x t
fails_with "a processed trace is none" 1 "$malloc_trace" report --errors p

# Counted elsewhere: whatever frees what is no block that is in use.
if valgrind --version >/dev/null 2>&1; then
    "$malloc_trace" record -q --check-frees -o t "$target" all >out
    kinds t >text
    ours=$(tr ' ' '\n' <text | awk '
        /double_free|inside|no_block/ { getline n; s += n } END { print s }')
    valgrind --error-limit=no --num-callers=4 "$target" all >out 2>memcheck
    is "memcheck counts as many" \
        "$(grep -c 'Invalid free() / delete' memcheck)" "$ours"
else
    skip "memcheck counts as many" "valgrind is not installed"
fi
tap_end
