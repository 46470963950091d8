#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace ctl PID memory: the table of a process that stands still is what
# smaps and the process's own count say; a busy one, which forks, is not stopped.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/ctl_memory_target" "$malloc_trace"
need_python
target=$built/recorder/ctl_memory_target
cd "$work" || exit 99

ctl() { timeout 60 "$malloc_trace" ctl "$@" >out 2>err; }
mkfifo in out.pipe

# begin ARGS...: starts the target, by the command $by; $pid, its input is
# descriptor 7, its output descriptor 8. Its first lines, up to "ready", are in
# truth.
plainly() { exec "$@"; }
confined() { exec "$built/process/sandbox_target" refuse getrandom "$@"; }
by=plainly
begin() {
    $by env LD_PRELOAD="$tracing" TCMALLOC_TRACE_CONTROL=1 "$target" "$@" \
        <in >out.pipe 2>target.err &
    pid=$!
    exec 7>in 8<out.pipe
    ready
}
ready() {
    while read -r line <&8 && [ "$line" != ready ]; do echo "$line"; done >truth
    [ "$line" = ready ]
}
end() {
    exec 7>&-
    cat <&8 >truth
    wait $pid
    status=$?
    exec 8>&-
}

cat >table.py <<'PY'
"""table.py PID COUNT TABLE: what the table must be; table.py TABLE...: sums."""
import json, sys

bad = []

def expect(good, what):
    if not good and len(bad) < 5:
        bad.append(what)

def same(got, want, what):
    expect(got == want, "%s: got %d, want %d" % (what, got, want))

def sums(m):
    page = m["page_bytes"]
    same(m["usable_bytes"] + m["free_bytes"],
         (m["live_pages"] + m["partly_pages"]) * page, "pages of blocks")
    same(m["empty_bytes"], m["empty_pages"] * page, "empty pages")
    same(m["never_bytes"], m["never_pages"] * page, "never used pages")
    same(m["never_bytes"], m["reserve_bytes"] + m["record_bytes"] +
         m["map_bytes"] + m["arena_bytes"], "never used")
    same(m["resident_bytes"], m["usable_bytes"] + m["free_bytes"] +
         m["empty_bytes"] + m["never_bytes"], "resident")
    same(m["usable_bytes"], sum(c["usable_bytes"] for c in m["classes"]),
         "classes")
    expect(m["empty_run_bytes"] <= m["empty_bytes"], "free runs")

# Resident bytes of the heap, and of the maps of pages, which have no huge pages.
# The heap begins with the class map, 8 MiB in the 2 GiB in which the block is.
# Stacks have no huge pages either, and a guard page before them; a map may follow
# in the same mapping.
def resident(pid, address):
    low = address >> 31 << 31
    heap = maps = stacks = guard = 0
    for line in open("/proc/%s/smaps" % pid):
        word = line.split()
        if not word[0].endswith(":"):
            start, end = (int(n, 16) for n in word[0].split("-"))
            access = word[1]
        elif word[0] == "Rss:":
            rss = int(word[1]) * 1024
        elif word[0] == "VmFlags:":
            if low + (8 << 20) <= start and end <= low + (64 << 30):
                heap += rss
            elif "nh" in word and start != guard:
                maps += rss
            elif "nh" in word:
                stacks += rss
            guard = end if access == "---p" else 0
    return heap, maps, stacks

def compare(m, pid, count):
    t = {k: int(v) for k, v in (l.split() for l in open(count))}
    heap, maps, stacks = resident(pid, t["address"])
    same(m["usable_bytes"] + m["free_bytes"] + m["empty_bytes"] +
         m["reserve_bytes"], heap, "the heap by smaps")
    # mincore counts pages that were only read.
    if m["residency"] == "pagemap_scan":
        expect(maps <= m["map_bytes"] <= maps + stacks + 65536, "maps by smaps")
    expect(m["resident_bytes"] <= m["rss_bytes"], "it is of the process")
    c = [c for c in m["classes"] if c["size"] == t["usable"]][0]
    same(c["blocks"], t["kept"], "blocks")
    same(c["usable_bytes"], t["kept"] * t["usable"], "their bytes")
    expect(c["thread_cache"] > 0, "free blocks of threads")
    expect(c["free_bytes"] >= t["page_free"], "free bytes of their pages")
    expect(t["page_free"] <= m["free_bytes"] <= t["page_free"] + (1 << 20),
           "free bytes: %d, want %d" % (m["free_bytes"], t["page_free"]))
    c = [c for c in m["classes"] if c["size"] == 0][0]
    expect(c["blocks"] >= t["larges"], "large blocks")
    expect(t["large_written"] <= c["usable_bytes"], "written")
    absent = t["large_bytes"] - t["large_written"]
    expect(absent <= m["absent_bytes"] <= absent + (1 << 20),
           "blocks without memory: %d, want %d" % (m["absent_bytes"], absent))

pid = sys.argv[1] if sys.argv[1].isdigit() else None
for name in sys.argv[3:] if pid else sys.argv[1:]:
    m = json.load(open(name))
    sums(m)
    if pid:
        compare(m, pid, sys.argv[2])
print("; ".join(bad) or "fine")
PY
table() { "$python" table.py "$@" 2>&1 | tail -n 1; }

begin still 2
result "still: runs" $?
cp truth count
ctl $pid memory --json m.json
is "still: exit status" $? 0
diag <err
is "still: it is what smaps and the process say" \
    "$(table $pid count m.json)" fine
[ "$(json m.json residency)" = pagemap_scan ] || note "without PAGEMAP_SCAN"
check "still: a sentence" grep -q "^process $pid: of .* resident .* are alive;$" out
for part in live "partly live" "empty pages" "never used" resident; do
    check "still: the part $part" grep -Eq "^  $part +[0-9.]+ [KMG]?i?B" out
done
check "still: it fits into 80 columns" sh -c '! grep "^.\{81\}" out'
check "still: sizes, with most free bytes first" sh -c \
    'grep -A 1 "^     size" out | tail -n 1 | grep -q "^    5,120 "'
ctl $pid memory --json - && cp out again.json
is "still: JSON alone on standard output, and the same again" \
    "$(grep -v rss_bytes again.json)" "$(grep -v rss_bytes m.json)"
empty=$(json m.json empty_run_bytes)
at_least "still: the freed pages are empty" "$empty" $((1 << 20))
echo >&7
ready
ctl $pid memory --json back.json
is "given back: it is what smaps and the process say" \
    "$(table $pid count back.json)" fine
is "given back: no free run is resident" "$(json back.json empty_run_bytes)" 0
at_least "given back: pages without memory" \
    "$(json back.json returned_bytes)" \
    $(($(json m.json returned_bytes) + empty))
end
is "still: the program's end" "$status $(cat target.err)" "0 "

# With a filter from the start, as in a container, mincore tells; a filter of the
# program's own may end it.
if (confined true); then
    by=confined
    begin still 2
    cp truth count
    ctl $pid memory --json c.json
    is "container: exit status" $? 0
    is "container: it is what smaps and the process say" \
        "$(table $pid count c.json)" fine
    is "container: by mincore" "$(json c.json residency huge_known)" \
        "mincore false"
    end
else
    skip "container" "the kernel refuses filters"
fi
by=plainly
if begin filter; then
    ctl $pid memory
    is "filter: exit status" $? 1
    check "filter: why" grep -q "has a filter of system calls" err
    end
    is "filter: the program lives on" "$status" 0
else
    end
    skip "filter" "the kernel refuses it"
fi

# Nothing waits for the table, and nothing is lost by it.
begin busy 2
bad=
n=0
while [ $n -lt 50 ]; do
    n=$((n + 1))
    ctl $pid memory --json b$n.json || bad="$bad $n: $(cat err);"
done
is "busy: 50 tables" "$bad" ""
end
is "busy: the program and its children end well" "$status $(cat target.err)" "0 "
is "busy: each adds up" "$(table b*.json)" fine
at_least "busy: its threads went on" \
    "$(sed -n 's/^rounds //p' truth)" 100000
at_least "busy: it forked meanwhile" "$(sed -n 's/^children //p' truth)" 10

# While it records, and for the program that does not answer.
TCMALLOC_TRACE_OUTPUT="$work/t"
export TCMALLOC_TRACE_OUTPUT
begin busy 2
ctl $pid memory --json r.json
is "recording: exit status" $? 0
is "recording: it adds up" "$(table r.json)" fine
end
is "recording: the program ends well" "$status" 0

# By its addresses and the kernel alone, a replay finds the same pages.
begin still 0
ctl $pid memory --json own.json
ctl $pid stop
end
unset TCMALLOC_TRACE_OUTPUT
cat >same.py <<'PY'
import json
own, a = json.load(open("own.json")), json.load(open("replay.json"))
m = [m for m in a["allocators"][0]["moments"] if m["name"] == "end"][0]
own["blocks"] = sum(c["blocks"] for c in own["classes"])
# mincore counts pages that were only read.
slack = 0 if own["residency"] == "pagemap_scan" else 16
for name in "live_pages", "partly_pages", "empty_pages":
    if abs(own[name] - m[name]) > slack:
        print(name, own[name], m[name])
used = m["requested_bytes"] + m["rounding_bytes"]
if abs(own["usable_bytes"] - used) > slack * own["page_bytes"]:
    print("usable_bytes", own["usable_bytes"], used)
if own["blocks"] != m["live_blocks"]:
    print("blocks", own["blocks"], m["live_blocks"])
print("fine")
PY
if offers "$malloc_trace" memory; then
    check "replay: malloc-trace memory" "$malloc_trace" memory -q \
        -a x="$minimal" --json=replay.json "$work/t"
    is "replay: it finds the pages of the spans" "$("$python" same.py 2>&1)" fine
else
    skip "replay" "no malloc-trace memory"
fi
ctl $pid memory
is "no process: exit status" $? 1
check "no process: one line" one_line err
ctl $$ memory x
is "an operand too many" $? 2
ctl $$ stop --json x
is "--json for another command" $? 2
tap_end
