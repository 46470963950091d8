#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace leaks: finds what programs of C, C++, Python and Perl leak, and
# nothing else; a command that it runs behaves as without it; limits decide its
# exit status.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace"
need_python
: "${CC:=cc}" "${CXX:=c++}"
[ "${TCM_HAVE_LIBDW:-no}" = yes ] || skip_all "built without elfutils"
"$malloc_trace" record -q --sites=stack -o probe true 2>/dev/null ||
    skip_all "no stacks are recorded here"
leaks() { "$malloc_trace" leaks "$@"; }
# found JSON: "BYTES BLOCKS FUNCTION" of each function.
found() {
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
for f in d["functions"]:
    print(f["bytes"], f["blocks"], f["function"])
assert d["bytes"] == sum(f["bytes"] for f in d["functions"])
assert d["blocks"] == sum(f["blocks"] for f in d["functions"])' "$1"
}
# field JSON NAME...
field() {
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(*(d[name] for name in sys.argv[2:]))' "$@"
}
# temporaries: what is left of recordings.
TMPDIR=$work/tmp
mkdir "$TMPDIR"
export TMPDIR

$CC -g -O1 -fno-builtin -o app "$here/report/leaks_program.c" -ldl 2>err ||
    skip_all "no compiler for a program"

# A command.
fails_with "leaks" 4 leaks --json leaks.json -- ./app leak
cp "$out" printed
cp "$err" text
is "which are those of the program" "$(found leaks.json)" \
    "1000 10 open_session
320 5 read_name"
is "its output is as without" "$(cat printed)" "leaks"
line=$(grep -n 'sink = xmalloc(100)' "$here/report/leaks_program.c" |
    cut -d: -f1)
like "the text has bytes, blocks, function and place" text \
    "^ *1000 B +10  open_session \\(.*leaks_program.c:$line\\)\$"
like "and the only stack, without a share" text \
    '^ +xmalloc < open_session < main'
like "and a sum" text '^./app: 1.29 KiB in 15 blocks of 2 functions at the end'
fails_with "at two lines" 4 leaks --stacks 2 --json lines.json -- ./app lines
large=$(grep -n 'sink = malloc(100)' "$here/report/leaks_program.c" | cut -d: -f1)
small=$(grep -n 'sink = malloc(20)' "$here/report/leaks_program.c" | cut -d: -f1)
cp "$err" text
like "the function has the sum" text '^ *340 B +5  collect$'
like "and each line its own" text \
    "^ *300 B +3    at .*leaks_program.c:$large\$"
like "of any size" text "^ *40 B +2    at .*leaks_program.c:$small\$"
is "no line exceeds 80 columns" "$(awk 'length > 80' text)" ""
is "in JSON, too" "$("$python" -c 'import json
f = json.load(open("lines.json"))["functions"][0]
print(f["line"], *((p["line"], p["bytes"], p["blocks"]) for p in f["places"]))
')" "$large ($large, 300, 3) ($small, 40, 2)"
fails_with "of several callers" 4 leaks -- ./app callers
cp "$err" text
like "the largest stack has its share" text '^ +60\.0 % make < first < main'
like "and the others are counted" text \
    '^ +and 2 more stacks; --stacks=3 shows all$'
is "in 80 columns" "$(awk 'length > 80' text)" ""
fails_with "as many as are asked for" 4 leaks --stacks 2 -- ./app callers
like "have theirs" "$err" '^ +30\.0 % make < second < main'
like "and one is left" "$err" '^ +and 1 more stack; --stacks=3 shows all$'
leaks --stacks 3 -- ./app callers >/dev/null 2>text
is "or none is" "$(grep -cE '[0-9] % make|more stack' text)" 3
check "a program without leaks" leaks --json clean.json -- ./app clean
cp "$err" text
is "its output" "$(cat "$out")" "clean 1"
like "says so" text '^./app: no leaks at the end'
is "what libraries keep is counted" "$("$python" -c 'import json
d = json.load(open("clean.json"))
print(d["blocks"], d["found"], d["suppressed_blocks"] > 0)')" "0 False True"
like "in a line" text \
    '^suppressed: .* in [0-9]+ blocks? that libraries keep \(see --show-suppressed\)$'
leaks --all --json all.json -- ./app clean >/dev/null 2>&1
is "or shown" "$("$python" -c 'import json
d, e = json.load(open("all.json")), json.load(open("clean.json"))
print(d["blocks"] == e["suppressed_blocks"], d["suppressed_blocks"])')" "True 0"
is "nothing is left of the recordings" "$(ls -A "$TMPDIR")" ""

# The command's end.
fails_with "a command that fails" 3 leaks -- ./app status
like "is told" "$err" 'app: exit status 3$'
like "with its leaks" "$err" ' open_session '
fails_with "one that is killed" 143 leaks -- ./app signal
like "is told, too" "$err" 'app: .*signal 15'
like "has what it used among its leaks" "$err" "lacks the program's beginning"
fails_with "one that is not there" 127 leaks -- ./nothing
fails_with "no command" 2 leaks --
fails_with "a trace and a command" 2 leaks t -- ./app
fails_with "neither" 2 leaks
is "after failures nothing is left" "$(ls -A "$TMPDIR")" ""
echo 'echo "$@"; exec ./app leak' >wrapper
fails_with "a program behind a shell" 4 leaks --json w.json -- sh wrapper a b
is "is the one that counts" "$(found w.json | head -n 1)" "1000 10 open_session"
is "with its output" "$(tr '\n' ' ' <"$out")" "a b leaks "
echo './app leak; true' >caller
fails_with "a program that a shell waits for" 4 \
    leaks --json w.json -- sh caller
is "counts, not the shell" "$(found w.json | head -n 1)" "1000 10 open_session"
like "which is named" "$err" \
    'app\.[0-9]+ \([0-9]+ calls\) is looked at; 1 of 2 .* (sh|dash|bash)\.'
echo '"$0" clean; "$0" leak; "$0" clean' >caller
leaks -- sh -c "$(cat caller)" ./app >"$out" 2>"$err"
like "of several programs" "$err" 'is looked at; 3 of 4 recorded processes'

# Limits.
check "within limits" leaks --max-bytes 1320 -- ./app leak
check "of blocks" leaks --max-blocks 15 -- ./app leak
check "of both" leaks --max-bytes 1320 --max-blocks 15 -- ./app leak
fails_with "beyond one of bytes" 4 leaks --max-bytes 1319 -- ./app leak
fails_with "beyond one of blocks" 4 leaks --max-blocks 14 -- ./app leak
fails_with "beyond one of both" 4 leaks --max-bytes 2000 --max-blocks 14 -- \
    ./app leak
echo 'leak:^open_' >supp
fails_with "what is suppressed does not count" 4 \
    leaks --suppressions supp --json s.json -- ./app leak
is "but the rest does" "$(found s.json)" "320 5 read_name"
check "what left it out is counted" "$python" -c 'import json
d = json.load(open("s.json"))
assert d["suppressed_by"] == [
    {"pattern": "^open_", "bytes": 1000, "blocks": 10}], d["suppressed_by"]
assert d["suppressed_blocks"] == d["library_blocks"] + 10
assert d["suppressed_bytes"] == d["library_bytes"] + 1000
by = {s["pattern"]: s for s in d["library_suppressed_by"]}
assert by["^_IO_file_doallocate$"]["blocks"] == 1, by
for name in "bytes", "blocks":
    assert 0 < sum(s[name] for s in by.values()) <= d["library_" + name]'
fails_with "and shown" 4 leaks --suppressions supp --show-suppressed -- \
    ./app leak
cp "$err" text
like "in sums" text 'that libraries keep; 1000 B in 10 blocks by --suppressions$'
like "by the pattern of the file" text '^ +1000 B +10  \^open_$'
like "by those of libraries" text '^ +[0-9.]+ [KB].* 1  \^_IO_file_doallocate\$$'
is "and adds up" "$(sed '1,/suppressed by$/d' text |
    awk '{ n += $3 } END { print n }')" "$(field s.json suppressed_blocks)"
echo 'leak:read_name' >>supp
check "all suppressed" leaks --suppressions supp --json s.json -- ./app leak
is "and counted" "$("$python" -c 'import json
print(json.load(open("s.json"))["suppressed_blocks"] >= 15)')" True
leaks --skip '^(open_session|read_name)$' --json s.json -- ./app leak \
    >/dev/null 2>&1
is "callers of what is skipped" "$(found s.json)" "1320 15 main"
leaks --no-skip --json s.json -- ./app leak >/dev/null 2>&1
like "innermost functions" s.json '"function": "xmalloc"'

# Traces.
fails_with "a recording that is kept" 4 leaks -o kept.lz4 -- ./app leak
fails_with "as a trace" 4 leaks --json t.json kept.lz4
is "has the same leaks" "$(found t.json)" "$(found leaks.json)"
like "on standard output" "$out" '^kept.lz4: 1.29 KiB in 15 blocks of 2'
fails_with "two traces" 4 leaks --json t.json kept.lz4 kept.lz4
like "are counted" "$out" "^2 traces: "
is "have them twice" "$(field t.json bytes blocks)" "2640 30"
fails_with "JSON alone on standard output" 4 leaks --json - kept.lz4
cp "$out" out.json
is "is valid" "$(field out.json blocks)" 15
is "nothing is printed when quiet" "$(leaks -q kept.lz4)" ""
fails_with "no trace" 1 leaks "$here/report/leaks.sh"
fails_with "growth in two traces" 1 leaks --growing kept.lz4 kept.lz4
fails_with "growth in a few blocks" 1 leaks --growing kept.lz4
fails_with "two modes" 2 leaks --growing --at-end kept.lz4
fails_with "a name with %p" 2 leaks -o x.%p -- ./app
"$malloc_trace" record -q --sites=sample:100 -o sample.lz4 -- ./app leak >/dev/null
"$malloc_trace" leaks sample.lz4 >text 2>&1
like "samples are said to be estimates" text "^call sites are of samples: "
"$malloc_trace" record -q --sites=caller -o caller.lz4 -- ./app leak >/dev/null
fails_with "callers alone" 4 leaks --json t.json caller.lz4
is "have the sums" "$(field t.json bytes blocks)" "1320 15"
like "and the text says what that misses" "$out" \
    "^only callers are recorded: libraries' blocks are among these; .*=stack\$"
is "as that of stacks does not" "$(leaks kept.lz4 | grep -c callers)" 0

fails_with "no call sites, though stacks were to be recorded" 4 leaks \
    --sites=stack -- env -u TCMALLOC_TRACE_SITES ./app leak
like "says so" "$err" '^[^:]*: warning: no call of [a-z]* has a call site, though'
is "and does not advise what was used" "$(grep -c sites=stack "$err")" 0
fails_with "a recording without call sites" 4 leaks --sites=none -- ./app leak
like "is told how to have them" "$err" 'app has no call sites: record with --sit'

# Growth.
fails_with "growth" 4 leaks --growing --json grow.json -- ./app grow
is "is of one function" "$(found grow.json | cut -d ' ' -f 3)" remember
check "of half of its blocks" "$python" -c 'import json
d = json.load(open("grow.json"))
print(d["blocks"], d["bytes"])
assert 8500 < d["blocks"] < 10500 and d["mode"] == "growing"
assert abs(d["bytes"] - 16.5 * d["blocks"]) < 10'
check "which is none at the end" leaks -- ./app grow
fails_with "growth of one block" 4 leaks --growing --json larger.json -- ./app larger
is "is of one function, by half of its bytes" "$(found larger.json)" "131072 1 append"
fails_with "between marks" 4 leaks --growing --json m.json -- ./app marks grows
is "to a block" "$(found m.json)" "16500 1000 remember"
is "and told" "$(field m.json period)" "between marks"
check "not around them" leaks --growing -- ./app marks
like "and told, too" "$err" '^./app: nothing grows between marks'

# C++.
for how in -O2 "-O1 -fno-inline"; do
    # shellcheck disable=SC2086
    if $CXX -g $how -o cxx "$here/report/leaks_program.cc" 2>err; then
        fails_with "C++ $how" 4 leaks --json cxx.json -- ./cxx
        is "C++ $how: the leak alone" "$(found cxx.json | sed 's/(.*//')" \
            "10240 20 open_session"
    else
        skip "C++ $how" "no compiler for a program"
    fi
done

# Threads whose function is inlined into the library's, without the debug
# information that says so.
cat >inlined.cc <<'END'
#include <functional>
#include <thread>
static char *volatile last;
int main() {
    std::function<void()> work = [] { last = new char[3000]; };
    for (int i = 0; i < 40; i++)
        std::thread([i] { last = new char[1000]; }).join();
    for (int i = 0; i < 5; i++)
        work();
    last = nullptr;
}
END
# shellcheck disable=SC2086
if $CXX -O2 -pthread -o inlined inlined.cc 2>err; then
    fails_with "inlined into std::thread" 4 leaks --json in.json -- ./inlined
    at_least "its blocks are leaks" "$(found in.json | grep -c "^40000 40 ")" 1
else
    skip "inlined into std::thread" "no compiler for a program"
fi

# Interpreters.
cp "$here/report/leaks_program.py" script.py
"$python" script.py >want
fails_with "Python" 4 leaks --json py.json -- "$python" script.py
cp "$out" printed
cp "$err" text
check "Python: output as without" cmp printed want
like "Python: growth, and why" text \
    'blocks that live at the end of .* tell little; growth instead'
if [ "$(field py.json mode)" = growing ] && grep -q remember py.json; then
    check "Python: what grows" "$python" -c 'import json
d = json.load(open("py.json"))
names = {f["function"]: f["blocks"] for f in d["functions"]}
print(names)
assert names["remember"] > 2000 and names["Session.__init__"] > 2000
assert "look_up" not in names and "compute" not in names'
else
    skip "Python: what grows" "no lines of $python are recorded"
fi
# A job that frees its data before it ends, with a leak beside it.
cat >job.py <<'END'
import sys, time
kept = []
def load(n):
    return [str(i) for i in range(n)]
def leak(n):
    kept.extend([object() for i in range(n)])
rows = []
for k in range(20):
    rows.extend(load(2000))
    if len(sys.argv) > 1:
        leak(500)
del rows[:]
time.sleep(0.5)
END
check "what a job frees before its end does not grow" \
    leaks --json job.json -- "$python" job.py
fails_with "what it keeps beside that does" 4 \
    leaks --json job.json -- "$python" job.py leak
cp "$err" text
if grep -q leak job.json; then
    is "Python: of a job only what it keeps" "$("$python" -c 'import json
print(sorted({f["function"][:4] for f in
    json.load(open("job.json"))["functions"]}))')" \
        "['leak']"
    like "Python: growth that is freed at the end may be a job's data" text \
        "^most of it is freed when the program ends"
else
    skip "Python: of a job only what it keeps" "no lines of $python are recorded"
    skip "Python: growth that is freed at the end" "no lines are recorded"
fi
cat >floats.py <<'END'
kept = []
def compute():
    return sum([i / 7 for i in range(90)])
for k in range(3000):
    compute()
    kept.append(float("1.5"))
END
fails_with "Python: floats" 4 leaks -- "$python" floats.py
cp "$err" text
if grep -q 'kept\|compute\|floats.py' text; then
    like "Python: a block of a free list may be of another line" text \
        "Python reuses freed ones without malloc"
else
    skip "Python: a block of a free list" "no lines of $python are recorded"
fi
# Java, by the name of its program.
echo 'int main(void) {
    for (int i = 0; i < 200; i++)
        __builtin_free(__builtin_malloc(i + 1));
    return 0;
}' >java.c
run $CC -O0 -fno-builtin -o java java.c
check "Java" leaks --json java.json -- ./java
is "Java: growth is the default" "$(field java.json mode)" growing
# Rust's library keeps the debug information that it read for a backtrace.
rustc=$(command -v rustc || command -v "${HOME:-}/.cargo/bin/rustc")
cat >trace.rs <<'END'
fn main() {
    let text = std::backtrace::Backtrace::force_capture().to_string();
    let caught = std::panic::catch_unwind(|| {
        let v: Vec<i32> = vec![];
        v[std::env::args().count() + 3]
    });
    let lost = vec![caught.is_err() as u8; 1000 + text.is_empty() as usize];
    std::mem::forget(std::hint::black_box(lost));
}
END
if [ -n "$rustc" ] && "$rustc" -g -O -o trace trace.rs 2>err; then
    RUST_BACKTRACE=1 fails_with "Rust: a leak beside a backtrace" 4 \
        leaks --json rust.json -- ./trace
    is "Rust: what was read for the backtrace is no leak" \
        "$(found rust.json)" "1000 1 trace::main"
else
    skip "Rust: a leak beside a backtrace" "no rustc"
    skip "Rust: what was read for the backtrace is no leak" "no rustc"
fi
# The code of a module runs once, so that what it keeps does not grow.
mkdir site-packages
echo 'data = [bytearray(n % 300 + 600) for n in range(9000)]' >site-packages/pack.py
PYTHONPATH=$work/site-packages check "a package that is imported" \
    leaks -- "$python" -c 'import pack'
# Small blocks are calls of malloc, unless Python would not start then.
echo '#include <stdio.h>
#include <stdlib.h>
void FUNCTION(void) { }
int main(void) {
    const char *value = getenv("PYTHONMALLOC");
    return puts(value != NULL ? value : "unset") < 0;
}' >setting.c
for pair in Py_BytesMain:malloc _Py_MergeZeroLocalRefcount:unset; do
    run $CC -o setting -DFUNCTION="${pair%:*}" setting.c
    run env -u PYTHONMALLOC "$malloc_trace" leaks -- ./setting
    is "PYTHONMALLOC beside ${pair%:*}" "$(cat "$out")" "${pair#*:}"
done
like "and what is not seen is told" "$err" "leaks: ./setting: .*free-threaded"
if have perl; then
    cp "$here/report/leaks_program.pl" script.pl
    fails_with "Perl" 4 leaks --json pl.json -- perl script.pl
    if grep -q remember pl.json; then
        check "Perl: what grows" "$python" -c 'import json
d = json.load(open("pl.json"))
names = {f["function"]: f["blocks"] for f in d["functions"]}
print(names)
assert names["remember"] > 2000 and names.get("compute", 0) < 100'
    else
        skip "Perl: what grows" "no lines of this perl are recorded"
    fi
else
    skip "Perl" "no perl"
fi
is "at last nothing is left" "$(ls -A "$TMPDIR")" ""
tap_end
