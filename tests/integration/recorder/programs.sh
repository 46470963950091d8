#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Real programs, recorded: output and exit status are those of the unrecorded
# run, and the trace is whole and replays to the state that its order says.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay"
need_python
record_limit=200

# same NAME LEAST CMD...: runs CMD plainly and recorded, compares, checks.
same() {
    same_name=$1
    same_least=$2
    shift 2
    "$@" >"$work/out1" 2>"$work/err1" </dev/null
    same_status=$?
    record "$work/t.$suffix" "$@" >"$work/out2" 2>"$work/err2" </dev/null
    is "$same_name: exit status" $? $same_status
    check "$same_name: same output" cmp "$work/out1" "$work/out2"
    check "$same_name: same messages" cmp "$work/err1" "$work/err2"
    check_trace "$same_name" "$work/t.$suffix" "$same_least"
    rm -f "$work/t.$suffix"*
}

PYTHONMALLOC=malloc
export PYTHONMALLOC
cat >"$work/a.py" <<'PY'
import collections, json, re, sys, threading
words = ["w%d" % (i * 7919 % 1000) for i in range(20000)]
count = collections.Counter(words)
text = json.dumps([{"id": i, "w": w, "f": i / 3} for i, w in enumerate(words)])
back = json.loads(text)
found = []
def search(lo):
    found.append(len(re.findall(r"w%d\b" % lo, text)))
threads = [threading.Thread(target=search, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(text), sorted(count.items())[:5], back[77], sorted(found))
sys.exit(3)
PY
same python 200000 "$python" "$work/a.py"

if have perl; then
    cat >"$work/a.pl" <<'PL'
my %h; my $s = 0;
for my $i (1 .. 60000) { $h{"k" . ($i * 7919 % 20011)} .= "v$i," }
for my $k (sort keys %h) { my @p = split /,/, $h{$k}; $s += @p }
my @l = map { { id => $_, n => [1 .. $_ % 7] } } 1 .. 5000;
printf "%d %d %s\n", $s, scalar(@l), join(",", grep { /99$/ } sort keys %h);
PL
    same perl 50000 perl "$work/a.pl"
else
    skip perl "not installed"
fi

if have sqlite3; then
    cat >"$work/a.sql" <<'SQL'
create table t (id integer primary key, name text, v real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into t select i, 'name ' || (i * 7919 % 10007), i / 7.0 from n;
create index x on t (name);
select count(*), sum(v) from t where name like 'name 1%';
select name, count(*) c from t group by name order by c desc, name limit 5;
select a.id, b.id from t a join t b on a.name = b.name and a.id < b.id limit 5;
SQL
    same sqlite 1500 sqlite3 :memory: ".read $work/a.sql"
else
    skip sqlite "not installed"
fi

if have g++ && have cc; then
    cat >"$work/a.cc" <<'CC'
#include <algorithm>
#include <map>
#include <string>
#include <vector>
std::string join(const std::map<std::string, std::vector<int>> &m) {
    std::string s;
    for (auto &e : m) {
        s += e.first;
        s += std::to_string(*std::max_element(e.second.begin(), e.second.end()));
    }
    return s;
}
CC
    g++ -O1 -c -o "$work/plain.o" "$work/a.cc"
    (cd "$work" && record 'cc.%p.'"$suffix" g++ -O1 -c -o a.o a.cc)
    is "g++ -c with %p: exit status" $? 0
    check "g++ -c with %p: the same object file" \
        cmp "$work/plain.o" "$work/a.o"
    n=0
    most=0
    for f in "$work"/cc.*; do
        case $f in *.spool) [ -e "${f%.spool}" ] && continue
            f=${f%.spool} ;; esac
        n=$((n + 1))
        check_trace "g++ -c with %p, process $n" "$f" 1
        events=$(json "$work/.post.json" events)
        [ "$events" -gt "$most" ] && most=$events
    done
    at_least "g++ -c with %p: driver, compiler and assembler" $n 3
    at_least "g++ -c with %p: the compiler's calls" "$most" 50000
else
    skip "g++" "not installed"
fi

# A shell with pipes, subshells, background jobs and here documents.
cat >"$work/a.sh" <<'SH'
f() { (echo "$1"; echo "$1$1" | tr a b) | sort | uniq -c; }
for i in a aa b; do f $i; done
x=$(f c | (read -r a b; echo "$b-$a"; (exit 3)); echo $?)
echo "$x" | cat <(echo process) - 2>&1
(sleep 0.05; echo late) & wait
cat <<E | wc -l
1
2
E
true; (exit 0)
exit 6
SH
if have bash; then
    same bash 100 bash "$work/a.sh"
    bash "$work/a.sh" >"$work/out1" 2>&1
    (cd "$work" && record 'sh.%p.'"$suffix" bash a.sh >out2 2>&1)
    is "bash with %p: exit status" $? 6
    check "bash with %p: same output" cmp "$work/out1" "$work/out2"
    n=0
    bad=0
    for f in "$work"/sh.*; do
        case $f in *.spool) [ -e "${f%.spool}" ] && continue
            f=${f%.spool} ;; esac
        n=$((n + 1))
        "$postprocess" --quiet --json "$work/json" "$f" "$work/p" \
            2>"$work/err" &&
            [ "$(json "$work/json" complete unmatched_frees)" = "true 0" ] ||
            { bad=$((bad + 1)); (echo "$f"; cat "$work/err") | diag; }
    done
    at_least "bash with %p: many processes" $n 15
    is "bash with %p: each trace is whole" $bad 0
fi

# Threads that pass blocks to each other, come and go.
if [ -x "$built/recorder/exchange" ]; then
    same "exchange of 12 threads" 100000 "$built/recorder/exchange" 12 20000
fi

# One that asks jemalloc by its own calls, too, crashes with any other malloc.
mixes_mallocs() {
    have nm && nm -D "$(readlink -f "$(command -v "$1")")" | grep -q 'U mallocx'
}

if have redis-server && mixes_mallocs redis-server; then
    skip redis "it takes memory from jemalloc by mallocx"
elif have redis-server && have redis-benchmark && have redis-cli; then
    mkdir "$work/redis"
    sock=$work/redis/s
    LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$work/redis.$suffix \
        redis-server --port 0 --unixsocket "$sock" --save '' \
        --appendonly no --dir "$work/redis" >"$work/redis/log" 2>&1 &
    pid=$!
    i=0
    while [ $i -lt 50 ] && ! redis-cli -s "$sock" ping >/dev/null 2>&1; do
        i=$((i + 1))
        sleep 0.1
    done
    timeout 100 redis-benchmark -s "$sock" -q -n 20000 -d 300 -r 5000 \
        -t set,get,lpush,lrange_100,hset >"$work/redis/bench" 2>&1
    is "redis-benchmark succeeds" $? 0
    redis-cli -s "$sock" set k v >/dev/null
    is "redis answers" "$(redis-cli -s "$sock" get k)" v
    redis-cli -s "$sock" shutdown nosave 2>/dev/null
    wait $pid
    is "redis ends" $? 0
    check_trace "redis" "$work/redis.$suffix" 100000
else
    skip redis "not installed"
fi
tap_end
