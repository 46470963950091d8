#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace ctl and the socket it talks to.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/control_target" "$postprocess" "$malloc_trace"
need_python
offers "$malloc_trace" ctl || skip_all "no ctl"
target=$built/recorder/control_target
cd "$work" || exit 99

dump() { "$python" "$test_lib/rawdump.py" "$@"; }
ctl() { timeout 60 "$malloc_trace" ctl "$@" >out 2>err; }
mkfifo in out.pipe

# begin VARIABLE=VALUE...: starts the target; $pid, its input is descriptor 7.
begin() {
    env LD_PRELOAD="$tracing" TCMALLOC_TRACE_UNCOMPRESSED=1 "$@" "$target" \
        serve \
        <in >out.pipe 2>target.err &
    pid=$!
    exec 7>in
    read -r line <out.pipe
}
end() {
    exec 7>&-
    wait $pid
    status=$?
}

fds() { find "/proc/$pid/fd" -type l | wc -l; }

begin TCMALLOC_TRACE_CONTROL=0
plain_fds=$(fds)
end
begin TCMALLOC_TRACE_OUTPUT="$work/t" TCMALLOC_TRACE_START=0 \
    TCMALLOC_TRACE_CONTROL=1
[ "$line" = ready ] || fail "the target runs"
is "the program sees no descriptor of ours" "$(fds)" "$plain_fds"
ctl $pid status
is "status, off: exit status" $? 0
check "status, off: says so" grep -q "^process $pid: off" out
ctl $pid flush
is "flush while off" $? 1
check "flush while off: one line" one_line err
ctl $pid stop
is "stop while off" $? 1
ctl $pid mark unheard
is "mark while off" $? 1
ctl $pid start
is "start: exit status" $? 0
is "start: tells the name" "$(cat out)" "recording to $work/t"
ctl $pid start
is "a second start" $? 1
check "a second start: why" grep -q 'is on already' err
ctl $pid mark "from outside"
is "mark" $? 0
sleep 0.1
ctl $pid flush
is "flush" $? 0
dump t >list 2>dump.err
at_least "flush: the file has calls" "$(grep -c 'malloc 60002 ' list)" 10
is "flush: and the mark" "$(grep -c 'mark text=from outside' list)" 1
ctl $pid status --json s.json
is "status, on" $? 0
check "status, on: says so" grep -q "recording to $work/t" out
is "status, JSON" "$(json s.json pid state output)" "$pid recording $work/t"
at_least "status, JSON: events" "$(json s.json events)" 10
"$malloc_trace" info --json i.json t >/dev/null 2>dump.err
is "status, JSON: threads are those of the program" \
    "$(json s.json threads)" "$("$python" -c '
import json
print(json.load(open("i.json"))["files"][0]["threads"])')"
at_least "status, JSON: bytes" "$(json s.json stored_bytes)" 100
ctl $pid stop
is "stop" $? 0
"$postprocess" --quiet --json json t p
is "stop: whole" "$(json json complete clean_end unmatched_frees)" "true true 0"
(mkdir -p "a%b" && cd "a%b" && ctl $pid start here && ctl $pid stop)
is "start to a file of the caller's folder" "$(ls "a%b")" "$(printf 'err\nhere\nout')"
ctl $pid start /nonexistent/x
is "start where nothing can be" $? 1
check "start where nothing can be: why" grep -q 'No such file' err
check "start where nothing can be: one line" one_line err
ctl $pid status
check "status, failed" grep -q "^process $pid: failed" out

# Where a process listens, for those who do not ask politely.
cat >find.py <<'PY'
def find(pid):
    start = "@malloc-trace/%s/" % pid
    with open("/proc/net/unix") as f:
        found = [l.split()[-1] for l in f if start in l]
    assert len(found) == 1, found
    return "\0" + found[0][1:]
PY

# Clients that behave badly.
cat >bad.py <<'PY'
import os, random, socket, sys, time
from find import find
address = find(sys.argv[1])
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(address)
    s.settimeout(10)
    return s
random.seed(7)
for i in range(300):
    s = connect()
    n = random.choice([1, 7, 8, 9, 100, 4104, 5000])
    packet = bytearray(os.urandom(n))
    if random.random() < 0.5:
        packet[:8] = (b"MTC1" + bytes([random.randrange(8), 0, 0, 0]))[:n]
        # Not a start, which could really begin one.
        if n > 4 and packet[4] == 1:
            packet[4] = 4
    if n:
        s.send(bytes(packet))
    if random.random() < 0.5:
        try:
            s.recv(1)
        except socket.timeout:
            assert n == 0
    s.close()
# More silent ones than are served at a time; then one with a request.
silent = [connect() for i in range(20)]
s = connect()
s.send(b"MTC1\4\0\0\0")
reply = s.recv(5000)
assert reply[:4] == b"MTR1" and reply[4] == 0, reply
# The oldest made room for it.
assert silent[0].recv(1) == b""
# One that never takes its reply.
for i in range(20):
    t = connect()
    t.send(b"MTC1\4\0\0\0")
s = connect()
s.send(b"MTC1\4\0\0\0")
assert s.recv(5000)[:4] == b"MTR1"
print("good")
PY
is "garbage, silence, disconnects" \
    "$(timeout 60 "$python" bad.py $pid 2>&1 | tail -n 1)" good
ctl $pid status
is "it still answers" $? 0
ctl $pid start again.trace
is "and records" $? 0
end
is "the program's end" $status 0
is "its stderr: what could not begin" "$(cat target.err)" \
    "$(grep -o 'tcmalloc: cannot record.*' target.err | head -n 1)"
"$postprocess" --quiet --json json again.trace p
is "what was on at the end is whole" "$(json json complete clean_end)" \
    "true true"

# Call sites by request, of the first recording and those that follow.
begin TCMALLOC_TRACE_CONTROL=1
ctl $pid start --sites=stack "$work/sited"
is "start --sites: exit status" $? 0
sleep 0.1
ctl $pid stop
"$malloc_trace" report --by=function sited >report 2>err
like "start --sites: the trace has them" report "[0-9] %  (some|work|serve)$"
ctl $pid start --sites=caller "$work/other"
is "start --sites: no other mode later" "$? $(cat err)" "1 malloc-trace ctl: \
process $pid: call sites stay as the first recording had them"
ctl $pid start --sites=stack "$work/again.sited"
is "start --sites: the same mode again" $? 0
ctl $pid stop
end
ctl $pid start --sites=nonsense
is "start --sites: a mode that there is not" $? 2
ctl $pid status --sites=stack
is "--sites without start" $? 2

# Who has no socket.
begin TCMALLOC_TRACE_OUTPUT="$work/u"
ctl $pid status
is "no socket: exit status" $? 1
check "no socket: says what is missing" grep -q TCMALLOC_TRACE_CONTROL err
end
ctl $pid status
is "no process: exit status" $? 1
check "no process: says so" grep -q 'does not exist' err
ctl 1 2>err
is "no command" $? 2
ctl x status
is "no process id" $? 2
ctl $$ nonsense
is "unknown command" $? 2
ctl $$ mark
is "mark without text" $? 2

# Without an output in the environment; on from the start; exec in place.
begin TCMALLOC_TRACE_CONTROL=1
ctl $pid start
is "no output named: exit status" $? 1
check "no output named: why" grep -q 'name a file' err
ctl $pid start "$work/named.%p"
is "no output named: start FILE" "$(cat out)" "recording to $work/named.$pid"
end
check "no output named: the file" test -s "named.$pid"
begin TCMALLOC_TRACE_CONTROL=1 TCMALLOC_TRACE_OUTPUT="$work/v" env nice
ctl $pid status
check "on from the start, after exec" grep -q "recording to $work/v" out
end

# record --delay and --duration.
for delay in "--delay 0.3" ""; do
    rm -f d.*
    # shellcheck disable=SC2086
    "$malloc_trace" record -o d.%p $delay --duration 0.4 -- "$target" watch \
        >out 2>err
    is "record $delay --duration: it began and ended" $? 0
    diag 3 <err
    is "record $delay --duration: the traces" "$(find . -name 'd.*' | wc -l)" 1
    dump d.* >list 2>dump.err
    diag <dump.err
    at_least "record $delay --duration: calls of that time" \
        "$(grep -c 'malloc 70001 ' list)" 1
    # The program asks whether it is recorded before it makes a call.
    at_least "record $delay --duration: no others" 2 \
        "$(grep -c 'malloc 7000[02] ' list)"
done
"$malloc_trace" record -o f --delay 9 -- true 2>err
is "record --delay: the end comes first" "$? $(find . -name f)" "0 "
"$malloc_trace" record --delay x -- true 2>err
is "record --delay: no number" $? 2

# Someone else listens at addresses of the process, takes nobody in, or speaks
# nonsense; he was there first.
cat >squat.py <<'PY'
import os, socket, sys, time
pid = os.getpid()
r, w = os.pipe()
if os.fork() == 0:
    os.close(r)
    if os.getuid() == 0:
        os.setuid(65534)
    kept = []
    for name in ["%d" % pid] + ["%d/%016x" % (pid, i) for i in range(200)]:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind("\0malloc-trace/" + name)
        s.listen(0)
        kept.append(s)
        # The queue is full.
        for i in range(2):
            t = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            t.setblocking(False)
            try:
                t.connect("\0malloc-trace/" + name)
            except OSError:
                pass
            kept.append(t)
    os.write(w, b"x")
    os.close(w)
    for fd in range(3):
        os.close(fd)
    # Until the process is gone.
    while os.getppid() == pid:
        time.sleep(0.1)
    os._exit(0)
os.read(r, 1)
os.execvp(sys.argv[1], sys.argv[1:])
PY
env "$python" squat.py env LD_PRELOAD="$tracing" TCMALLOC_TRACE_CONTROL=1 \
    "$target" serve <in >out.pipe 2>target.err &
pid=$!
exec 7>in
read -r line <out.pipe
ctl $pid status
is "addresses that others took: it answers" "$? $(cat err)" "0 "
ctl $pid start "$work/squat"
is "addresses that others took: it records" "$?" 0
end
is "addresses that others took: nothing is said" "$status $(cat target.err)" "0 "

# Another user.
if others_can; then
    chmod 755 "$work"
    begin TCMALLOC_TRACE_CONTROL=1
    setpriv --reuid 65534 --clear-groups "$malloc_trace" ctl $pid status >out \
        2>err
    is "another user's process: exit status" $? 1
    check "another user's process: says so" grep -q 'another user' err
    cat >peer.py <<'PY'
import os, socket, sys
from find import find
os.setuid(65534)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
s.connect(find(sys.argv[1]))
try:
    s.send(b"MTC1\4\0\0\0")
    reply = s.recv(5000)
    # Result, state, number of counts, length of the output's name.
    print(*reply[4:6], any(reply[6:10]))
except OSError:
    print("1 0 False")
PY
    is "another user is refused and learns nothing" \
        "$("$python" peer.py $pid)" "1 0 False"
    end

    # Users who changed since the socket was made; who may be root again.
    cat >change.py <<'PY'
import os, sys
change = os.setuid if sys.argv[1] == "for-good" else os.seteuid
change(65534)
print("ready", flush=True)
sys.stdin.read()
PY
    ctl_as() { # USER COMMAND...: leaves $status, out and err
        user=$1
        shift
        timeout 60 setpriv --reuid "$user" --clear-groups "$malloc_trace" ctl \
            $pid "$@" >out 2>err
        status=$?
    }
    mkdir -m 777 open
    for change in for-good for-a-while; do
        env LD_PRELOAD="$tracing" TCMALLOC_TRACE_CONTROL=1 "$python" change.py \
            $change <in >out.pipe 2>target.err &
        pid=$!
        exec 7>in
        read -r line <out.pipe
        ctl_as 0 status
        is "another user $change: root may" "$status $(cat err)" "0 "
        ctl_as 65534 start "$work/open/$change"
        if [ $change = for-good ]; then
            is "another user for-good: he may" "$status $(cat err)" "0 "
            ctl_as 65534 stop
            is "and his is the trace" "$status $(stat -c %u open/$change)" \
                "0 65534"
        else
            is "another user for-a-while: he may not" "$status $(ls open)" \
                "1 for-good"
        fi
        ctl_as 1 stop
        is "another user $change: a third may not" $status 1
        is "another user $change: which he is told" "$(cat err)" "malloc-trace \
ctl: process $pid: it belongs to another user, and you are not root"
        end
    done

    # A socket of an earlier process that had the id.
    cat >earlier.py <<'PY'
import os, socket, subprocess, sys, time
r, w = os.pipe()
earlier = os.fork()
if earlier == 0:
    os.setuid(65534)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind("\0malloc-trace/%d/%016x" % (os.getpid(), 1))
    s.listen(5)
    heir = os.fork()
    while heir == 0:
        t = s.accept()[0]
        if t.recv(5000):
            t.send(b"MTR1" + bytes(8))
    os.write(w, b"%d" % heir)
    os._exit(0)
os.waitpid(earlier, 0)
heir = int(os.read(r, 20))
for i in range(1000):
    try:
        with open("/proc/sys/kernel/ns_last_pid", "w") as f:
            f.write("%d" % (earlier - 1))
    except OSError:
        break
    pid = os.fork()
    if pid == 0:
        os.setuid(1)
        time.sleep(60)
        os._exit(0)
    if pid == earlier:
        break
    os.kill(pid, 9)
    os.waitpid(pid, 0)
if pid == earlier:
    for user in "0", "1":
        done = subprocess.run(["setpriv", "--reuid", user, "--clear-groups",
                               sys.argv[1], "ctl", str(pid), "status"],
                              capture_output=True)
        print(done.returncode, b"has no control socket" in done.stderr)
    os.kill(pid, 9)
os.kill(heir, 9)
PY
    said=$("$python" earlier.py "$malloc_trace" | tr '\n' ' ')
    if [ -n "$said" ]; then
        is "the socket of an earlier process is not taken" "$said" \
            "1 True 1 True "
    else
        skip "the socket of an earlier process" "no process gets its id"
    fi
else
    skip "another user" "$why_no_others"
fi
tap_end
