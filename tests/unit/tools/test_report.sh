#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace report of traces whose every allocation is known: several at
# once, threads, samples.
. "$top_srcdir/tests/lib/harness.sh"
make=$top_builddir/tests/unit/tools/report_make
need "$malloc_trace" "$make"
report() { "$malloc_trace" report "$@"; }

cat >one.txt <<'E'
mode 2 0
module 1 0x1000 0x9000 /nowhere/app
frame 1 0 1 0x1100
frame 2 1 1 0x1200
frame 3 1 1 0x1300
site 2
thread 1
new 1 100
new 2 50
thread 2
site 3
new 3 1000
free 1
new 4 10
free 4
end 2 worker
E
# Other numbers, the same places, and one of its own.
cat >two.txt <<'E'
module 7 0x5000 0x9000 /nowhere/app
frame 2 0 7 0x5300
frame 9 0 7 0x5400
thread 5
site 2
new 1 4
site 9
new 2 8
end 5 main
E
"$make" one <one.txt
"$make" two <two.txt

# Several traces.
report --columns one two | sort >got
is "places of several traces are the same by name" \
    "$(awk '{ print $1, $2, $3 }' got | sort)" "1014 3 app+0x2ff
150 2 app+0x1ff
8 1 app+0x3ff"
report --columns two one | sort >got2
check "in any order" cmp got got2
report one two >text
like "the sum of all" text \
    '^2 traces: 1.14 KiB in 6 calls; peaks 1.13 KiB; 1.04 KiB live at the end$'
report --by=thread --columns one two >got
like "threads of each" got ' 2 5 main in two$'
like "by their trace" got ' 2 2 worker in one$'
report --by=size --to=csv one one >got
like "twice the same" got '^1000,2000,2,2000,2,2000,2,'
report -q --to=objects -o got one two
is "objects of all" "$(wc -l <got)" 7
report --diff one --columns one two >got
is "a difference to some of them" "$(wc -l <got)" 3

# Threads.
report --threads one >text
like "a thread's share of a row" text '^ +100.0 % by thread 2 worker$'
report --threads --to=csv one >csv
is "rows by thread" "$(sed 1d csv | cut -d, -f1-3,17 | sort)" \
    "app+0x1ff,150,2,1
app+0x2ff,1010,2,2 worker"
fails_with "threads of sizes" 2 report --threads --by=size one

# Stacks.
report one >text
like "the stack of a row" text '^ +100.0 % < app\+0xff$'
report --stacks 0 one >text
is "unless nobody wants it" "$(grep -c '<' text)" 0
report -q --stacks 5 --to=json -o j one
tr -d ' \n' <j >line
like "in JSON" line \
    '"stacks":\[\{"value":1010,"frames":\["app\+0x2ff","app\+0xff"\]'
# Two that differ only far outside of what fits in a line, in library frames
# around the user's.
awk 'BEGIN {
    print "module 1 0x1000000 0x9000000 /opt/app"
    print "module 2 0x1000000 0x9000000 /lib/libc.so.6"
    for (s = 0; s < 2; s++) {
        for (i = 1; i <= 30; i++)
            printf "frame %d %d %d %d\n", 40 * s + i,
                i == 1 ? 0 : 40 * s + i - 1, i == 2 || i == 8 ? 1 : 2,
                16777216 + 16 * i + (i == 5 ? 4096 * s : 0)
        printf "site %d\nnew %d 8\n", 40 * s + 30, s
    }
}' | "$make" deep
# whole: joins the lines of a stack, none of which exceeds 80 columns.
whole() { sed -e ':a' -e N -e 's/\n \{14\}</ </' -e ta -e P -e D; }
report deep >lines
is "lines of a stack are short" "$(awk 'length > 80' lines)" ""
whole <lines >text
is "stacks that differ late: no two lines are the same" \
    "$(grep '50.0 %' text | sort -u | wc -l)" 2
user='app\+0x7f < \.\.\. <'
like "one has its frame" text \
    "< \.\.\. < $user libc.so.6\+0x4f < \.\.\. < app\+0x1f < \.\.\.$"
like "and so has the other" text \
    "< \.\.\. < $user libc.so.6\+0x104f < \.\.\. < app\+0x1f < \.\.\.$"
like "the row is of the user's frame" text ' app\+0x7f$'
report --no-skip deep >text
like "with --no-skip of the innermost" text ' libc.so.6\+0x1df$'
report --skip 'app' deep >text
like "and so if the user's are passed over" text ' libc.so.6\+0x1df$'
fails_with "a pattern that is none" 2 report --skip '(' deep
fails_with "both" 2 report --skip x --no-skip deep
is "a filter matches any frame" "$(report --columns --filter 0x104f deep)" \
    "$(printf '%16d %12d app+0x7f' 8 1)"
report --columns --filter 'nothing' deep >text
is "or none" "$(cat text)" ""
report --filter 0x104f deep >text
like "its sums are those of the rows" text \
    '^deep: 8 B in 1 call; 8 B at the peak of [0-9.]+ K?i?B; '
report --tree one >text
sed '1,2d; /debug information/d' text | awk '{ print $1, $3, $(NF - 2), $NF }' >got
is "a tree" "$(cat got)" "1.13 4 100.0 all
1.13 4 100.0 app+0xff
1010 2 87.1 app+0x2ff
150 2 12.9 app+0x1ff"
is "frames stand below those that called them" \
    "$(sed -n 's/.*%  \( *\)app.*/<\1>/p' text | tr -d '\n')" "<><  ><  >"
report --tree --share 20 one >text
like "a branch that is left out is told" text '^branches with less than 20 % are left out: 1; '
is "and not shown" "$(grep -c 0x1ff text)" 0
report --tree --sort=calls one >text
like "by calls" text '50.0 %    app.0x1ff$'
report --tree --share 0 --diff two one >text
like "differences of trees" text '^ +-8 B +-1 .* app\+0x3ff$'
report -q --tree --to=json -o j one
tr -d ' \n' <j >line
like "a tree in JSON" line \
    '"tree":\[\{"frame":"app\+0xff","depth":1,"bytes":1160,'
fails_with "a tree of sizes" 2 report --tree --by=size one
fails_with "a tree in columns" 2 report --tree --columns one
fails_with "a share that is none" 2 report --tree --share x one
# All of a branch, as a chain.
cat >chain.txt <<'E'
frame 1 0 0 0x1100
frame 2 1 0 0x1200
frame 3 2 0 0x1300
site 3
new 1 100
E
"$make" chain <chain.txt
report --tree chain >text
is "a chain of calls" "$(sed -n 's/^ *> //p' text | tr '\n' ' ')" \
    "0x11ff 0x12ff "

# Suppressions are LeakSanitizer's: brackets are brackets.
cat >names.txt <<'E'
text 1 a.py
text 2 array[]
text 3 outer
file 1 0 1 5 3
file 2 1 1 9 2
site 2
new 1 100
site 1
new 2 7
E
"$make" named <names.txt
left() { # PATTERN: bytes of what is left
    echo " leak:$1 " >supp
    report --columns --suppressions supp named | awk '{ print $1 }'
}
# Native code that lines call: rows are of the lines, and stacks have it.
cat >lines.txt <<'E'
text 1 a.py
text 2 f.<locals>.g
text 3 outer
module 1 0x1000 0x9000 /nowhere/lib.so
module 2 0x10000 0x90000 /nowhere/other.so
file 1 0 1 5 3
file 2 1 1 9 2
frame 3 2 1 0x1100
frame 4 3 1 0x1200
frame 5 2 2 0x11100
frame 6 0 1 0x1300
site 4
new 1 100
site 2
new 2 10
site 5
new 3 1
site 6
new 4 5
E
"$make" lines <lines.txt
report --tree --share=0 lines |
    sed -n '/%/s/^ *\([0-9]*\) B .*%  */\1 /p; s/^ *> */> /p' >got
is "native code called by a line" "$(tr '\n' ' ' <got)" "116 all 111 outer \
> f.<locals>.g 100 lib.so+0xff > lib.so+0x1ff 1 other.so+0x10ff 5 lib.so+0x2ff "
for by in "line 111:a.py:9 5:lib.so+0x2ff" \
    "function 111:f.<locals>.g 5:lib.so+0x2ff" \
    "module 105:/nowhere/lib.so 10:(no_module) 1:/nowhere/other.so" \
    "lang 111:python 5:native"; do
    is "by ${by%% *}" "$(report --by="${by%% *}" --columns lines |
        awk '{ n = $1; $1 = $2 = ""; sub("^ *", ""); gsub(" ", "_")
            printf " %d:%s", n, $0 }')" " ${by#* }"
done
# made FILE: what has the bytes of a line in FILE that a.py:3 calls.
made() {
    "$make" made <<E
text 1 a.py
text 2 $1
text 3 f
module 1 0x1000 0x9000 /nowhere/libffi.so.8
file 1 0 1 3 3
file 2 1 2 1 3
site 2
new 1 100
frame 3 1 1 0x1100
site 3
new 2 10
E
    report --by=line --columns made | awk '{ print $1 ":" $3 }'
}
is "code that a library made is not the user's" \
    "$(made '<__array_function__ internals>')" "110:a.py:3"
is "code that the user typed is" "$(made '<stdin>')" "100:<stdin>:1
10:a.py:3"
"$make" ffi <<'E'
module 1 0x1000 0x9000 /nowhere/libffi.so.8
module 2 0x11000 0x19000 /nowhere/app
frame 1 0 2 0x11100
frame 2 1 1 0x1100
site 2
new 1 100
E
report --by=function --columns ffi >got
is "libffi is not the user's" "$(awk '{ print $1, $3 }' got)" "100 app+0xff"
report --by=line lines >got
like "in the stack of a row, too" got \
    ' 90.1 % lib.so.0x1ff < lib.so.0xff < f.<locals>.g < outer$'
report --to=folded -q lines >got
is "folded stacks" "$(LC_ALL=C sort got | tr '\n' ' ')" "lib.so+0x2ff 5 \
outer;f.<locals>.g 10 outer;f.<locals>.g;lib.so+0xff;lib.so+0x1ff 100 \
outer;f.<locals>.g;other.so+0x10ff 1 "
is "brackets" "$(left 'array[]')" 7
is "the beginning" "$(left '^rray')" "100
7"
is "both ends" "$(left '^arr*y[]$')" 7
is "a caller" "$(left 'outer$')" ""
is "a file" "$(left '^a.*')" ""
is "a dot is a dot" "$(left 'a?py')" "100
7"
echo "race:x" >supp
fails_with "no leak" 1 report --suppressions supp named

# The losses of a conversion are said in plain words.
"$malloc_trace" convert --to=csv named named.csv 2>text
"$malloc_trace" dump named >all
is "records of sites have no place in CSV" "$(cat text)" \
    "malloc-trace convert: no call is lost; csv has no place for \
$(grep -cE ' (site|text) [0-9]' all) records of call sites"
is "all calls are there" "$(sed 1d named.csv | wc -l)" 2

# Samples: one of 10 bytes at a mean distance of 10 stands for 1 / (1 - 1/e).
cat >samples.txt <<'E'
mode 3 10
frame 1 0 0 0x1100
site 1
new 1 10
site 0
new 2 1000
site 1
new 3 10000
free 3
E
"$make" samples <samples.txt
report samples >text
like "exact sums" text \
    '^samples: 10.8 KiB in 3 calls; peak 10.8 KiB; 1010 B live at the end$'
like "and that the rest is estimated" text 'estimated from 2 samples'
report --to=csv samples >csv
is "estimates" "$(sed 1d csv | cut -d, -f1-5,17)" "0x10ff,10016,3,16,2,2"
report --by=size samples >text
is "sizes are exact" "$(grep -c estimated text)" 0
# Lives whose sum needs more than 64 bits: 800 blocks, half of them freed
# after 1.6 years each, the others alive at the end.
awk 'BEGIN {
    print "malloc-trace text 1\nthread 1"
    for (s = 0; s < 800; s++)
        printf "slot %d = malloc(8)\n", s
    print "time 50000000000000000 ns"
    for (s = 0; s < 400; s++)
        printf "free(slot %d)\n", s
    print "end: 1200 operations, 400 live"
}' >old
report -q --to=json -o j old
like "the mean of long lives" j '"life_ns_mean": 50000000000000000,'
report old >text
like "in the table" text ' 13888 h 53 min +0 % '
report -q --to=dhat -o j old
tr -d ' \n' <j >line
like "their sum in a profile" line '"tl":40000000000000000,'

# Memory grows with blocks, not to twice as much at a power of two.
most() { # N: KiB that a report of N live blocks takes at most
    awk -v n="$1" 'BEGIN {
        print "malloc-trace text 1\nthread 1"
        for (s = 0; s < n; s++)
            printf "slot %d = malloc(8)\n", s
        printf "end: %d operations, %d live\n", n, n
    }' | "$malloc_trace" convert -q - p
    "$python" -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' \
        "$malloc_trace" report -q p
}
if [ -n "$python" ] && [ "${TCM_SANITIZED:-no}" = no ]; then
    few=$(most 1048576)
    more=$(most 1048600)
    # Where the C library asks for huge pages, each array has one more.
    check "a few blocks more take little memory" test $((more - few)) -lt 16384
else
    skip "memory of a few blocks more" "no python3, or sanitizers"
fi

# A limit of file sizes, here of 512 or 1,024 bytes, is an error like a full
# disk.
awk 'BEGIN {
    print "malloc-trace text 1\nthread 1"
    for (s = 0; s < 800; s++)
        printf "slot %d = malloc(%d)\n", s, s + 1
    print "end: 800 operations, 800 live"
}' >sizes
for out in "report -q --to=objects -o small" "report -q --to=json --by=size -o small" \
    "replay -q --log small"; do
    (
        ulimit -f 1
        "$malloc_trace" $out sizes 2>err
    )
    is "no room for the output of $out: exit status" $? 1
    like "and a line says so" err 'small: File too large$'
done

# Growth is one in time, too. growth PROGRAM: what an awk program grows by that
# has pass(NS), keep(SITE) for a block, and use(COUNT) for blocks that come and
# go. mawk prints numbers above 2^31 rounded, unless %.0f asks for digits.
growth() {
    awk 'function pass(ns) { now += ns; printf "time %.0f\n", now }
        function keep(site) { print "site " site; print "new " ++n " 40" }
        function use(count) {
            print "site 3"
            for (; count > 0; count--) { print "new 0 100"; print "free 0" }
        }
        function read_table(   i) {
            for (i = 0; i < 5000; i++) {
                keep(1)
                if (i % 8 == 0) use(1)
                if (i % 500 == 0) pass(1e6)
            }
        }
        BEGIN {
            print "mode 2 0\nmodule 1 0x1000 0x9000 /nowhere/app"
            for (i = 1; i <= 3; i++) print "frame " i " 0 1 0x1" i + 1 "00"
            print "thread 1"
            pass(1e9)
            '"$1"'
        }' >grows.txt
    "$make" grows <grows.txt || echo failed
    "$malloc_trace" leaks --growing --json grows.json grows >text 2>&1 ||
        [ $? -eq 4 ] || echo failed
    sed -n 's/.*"function": "app+0x\(.\)ff".*/\1/p' grows.json | tr '\n' ' '
}
poll="pass(5e6); use(1)"
is "a table that is read before few calls grows not" \
    "$(growth "read_table(); for (i = 0; i < 200; i++) { $poll }")" ""
like "and the text has the clock" text \
    '^grows: nothing grows in the second half of allocations$'
is "nor do calls that are far apart" "$(growth \
    'read_table(); for (i = 0; i < 100; i++) { pass(1e9); use(1) }')" ""
request="pass(3e6); use(30); keep(2)"
is "a block for each request does" "$(growth \
    "read_table(); for (i = 0; i < 300; i++) { $request }")" "2 "
is "also at the end alone" "$(growth "read_table()
    for (i = 0; i < 900; i++) { pass(3e6); use(30) }
    for (i = 0; i < 200; i++) { $request }")" "2 "
work="for (i = 0; i < 2000; i++) { pass(1e6); keep(2); use(3) }"
is "and work behind which a program sleeps" "$(growth \
    "$work; pass(5e9); use(9)")" "2 "
is "or waits" "$(growth \
    "$work; for (i = 0; i < 9; i++) { pass(5e8); use(1) }")" "2 "
is "or frees all" "$(growth \
    "$work; for (i = 1; i <= n; i++) {
        print \"free \" i; if (i % 8 == 0) { pass(1e6); use(1) } }")" "2 "
is "and a container that doubles" "$(growth \
    "for (i = 0; i < 20000; i++) {
        if (i >= size) {
            size = size < 16 ? 16 : 2 * size
            print \"site 2\"
            if (i > 0) print \"free 1\"
            print \"new 1 \" 8 * size
        }
        use(3)
        if (i % 40 == 0) pass(i < 12000 ? 4e5 : 1e6)
    }")" "2 "
is "but not one that was filled" "$(growth \
    'n = 1; for (i = 64; i < 2e6; i *= 2) {
        if (i > 64) print "free 1"
        print "site 2"; print "new 1 " i; use(99); pass(1e6)
    }
    for (i = 0; i < 99; i++) { pass(9e6); use(1) }')" ""
is "in a short time, too" "$(growth \
    'for (i = 0; i < 2000; i++) { keep(2); use(3) }; pass(5e9); use(9)')" "2 "
tap_end
