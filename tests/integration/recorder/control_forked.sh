#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace ctl of forked processes: daemons, their children, and servers.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/control_target" "$postprocess" "$malloc_trace"
need_preload
need_python
target=$built/recorder/control_target
servers=
cleanup() { for pid in $servers; do kill -QUIT "$pid" 2>/dev/null; done; }
cd "$work" || exit 99
mkfifo in

# soon COMMAND...: it succeeds within 10 s.
soon() {
    soon=100
    until "$@" 2>/dev/null; do
        [ $((soon -= 1)) -gt 0 ] || return 1
        sleep 0.1
    done
}
gone() { ! kill -0 "$1"; }

ctl() { timeout 60 "$malloc_trace" ctl "$@" >out 2>err; }

# answers NAME PID: it takes a start, and its trace is whole.
answers() {
    ctl "$2" start "$work/t/$2"
    is "$1: start" "$? $(cat out err)" "0 recording to $work/t/$2"
    sleep 0.1
    ctl "$2" stop
    is "$1: stop" "$?" 0
    "$postprocess" --quiet --json json "t/$2" p
    is "$1: a whole trace" "$(json json complete clean_end)" "true true"
}
mkdir t
chmod 1777 "$work" t

# start_daemon VARIABLE=VALUE...: sets master, idle and busy; ends with input 7.
start_daemon() {
    env LD_PRELOAD="$tracing" "$@" "$target" daemon <in >pids 2>daemon.err &
    exec 7>in
    wait $!
    soon [ -s pids ]
    read -r master idle busy <pids
    servers="$busy $idle $master"
}
end_daemon() {
    exec 7>&-
    soon gone "$master"
}

for start in off on; do
    name="recorded from the start: $start"
    case $start in
    off) start_daemon TCMALLOC_TRACE_CONTROL=1 ;;
    on)
        start_daemon TCMALLOC_TRACE_CONTROL=1 \
            TCMALLOC_TRACE_OUTPUT="$work/first"
        ;;
    esac
    answers "$name, a daemon whose parent has ended" "$master"
    answers "$name, its child that never called malloc" "$idle"
    answers "$name, its child that works" "$busy"
    at_least "$name, the child's calls are in its trace" \
        "$(json json mallocs)" 10
    ctl "$busy" start
    is "$name, no output of its own: name a file" \
        "$? $(grep -c 'name a file' err)" "1 1"
    end_daemon
    is "$name, nothing is on stderr" "$(cat daemon.err)" ""
done

# The drop-in of the document.
sed -n 's/^Environment=//p' "$top_srcdir/doc/containers.md" | tr ' ' '\n' |
    sed -e "s|=libtc|=$(dirname "$tracing")/libtc|" -e 's/%%/%/g' \
        -e "s|/var/lib/malloc-trace/%N|$work/t|" >service.env
is "the drop-in has the variables" "$(grep -c . service.env)" 4
as=
# shellcheck disable=SC2046
service() { $as env $(cat service.env) "$@" >server.out 2>server.err; }
# shellcheck disable=SC2046
start_daemon $(cat service.env)
ctl "$busy" start
is "the drop-in: start without a file" "$? $(cat out)" \
    "0 recording to $work/t/$busy.lz4"
ctl "$busy" stop
end_daemon

# Many short-lived children: none is lost, none says anything.
env LD_PRELOAD="$tracing" TCMALLOC_TRACE_CONTROL=1 "$target" brood 500 2>err
is "500 children that end at once" "$? $(cat err)" "0 "


# A child that changes root folder and user at once: FILE is outside of it.
if [ "$(id -u)" = 0 ]; then
    mkdir jail
    env LD_PRELOAD="$tracing" TCMALLOC_TRACE_CONTROL=1 "$python" -S -c '
import os, sys, time
pid = os.fork()
if pid == 0:
    os.chroot(sys.argv[1])
    os.chdir("/")
    os.setgid(65534)
    os.setuid(65534)
    time.sleep(60)
    os._exit(0)
print(pid, flush=True)
os.wait()' "$work/jail" >pid 2>err &
    soon [ -s pid ]
    answers "a child with another root folder and user" "$(cat pid)"
    kill -KILL "$(cat pid)"
    wait $!
else
    skip "a child with another root folder" "not root"
fi

# --- Servers -----------------------------------------------------------------

# children_of PID
children_of() {
    grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status |
        sed 's|/proc/\([0-9]*\)/status|\1|'
}

# has_children PID COUNT
has_children() { [ "$(children_of "$1" | wc -l)" -ge "$2" ]; }

# records SERVER MASTER COMMAND...: all of its processes, while COMMAND runs.
records() {
    server=$1 all="$2 $(children_of "$2")"
    shift 2
    for pid in $all; do
        ctl "$pid" start
        is "$server: start" "$? $(cat out err)" \
            "0 recording to $work/t/$pid.lz4"
    done
    "$@" >client.out 2>&1
    is "$server: it serves" $? 0
    mallocs=0
    for pid in $all; do
        ctl "$pid" stop
        is "$server: stop" "$? $(cat err)" "0 "
        "$postprocess" --quiet --json json "t/$pid.lz4" p
        is "$server: a whole trace" "$(json json complete)" true
        mallocs=$((mallocs + $(json json mallocs)))
    done
    at_least "$server: what it asked for is recorded" "$mallocs" "$least"
    kill -QUIT "$servers"
    soon gone "$servers"
    servers=
}

cat >client.py <<'PY'
import os, socket, sys
path, kind = sys.argv[1:]
def record(kind, body):
    return bytes([1, kind, 0, 1]) + len(body).to_bytes(2, "big") + b"\0\0" + body
for i in range(20):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    if kind == "http":
        s.sendall(b"GET /x HTTP/1.0\r\n\r\n")
    else:
        names = {"SCRIPT_NAME": "/x.php", "REQUEST_METHOD": "GET",
                 "SCRIPT_FILENAME": os.path.realpath("x.php")}
        body = b"".join(bytes([len(k), len(v)]) + k.encode() + v.encode()
                        for k, v in names.items())
        s.sendall(record(1, b"\0\1\0\0\0\0\0\0") + record(4, body) +
                  record(4, b"") + record(5, b""))
    answer = b""
    while True:
        more = s.recv(4096)
        if not more:
            break
        answer += more
    assert b"200 OK" in answer, answer
PY

if have nginx; then
    mkdir n
    echo hello >n/x
    cat >nginx.conf <<CONF
daemon on; worker_processes 2; pid $work/nginx.pid; error_log $work/n.log;
events { worker_connections 64; }
http { access_log off; client_body_temp_path $work/n/1;
proxy_temp_path $work/n/2; fastcgi_temp_path $work/n/3;
uwsgi_temp_path $work/n/4; scgi_temp_path $work/n/5;
server { listen unix:$work/n.sock; root $work/n; } }
CONF
    service nginx -c "$work/nginx.conf" -e "$work/n.log"
    is "nginx starts" "$? $(cat server.err)" "0 "
    servers=$(cat nginx.pid)
    check "nginx has its workers" soon has_children "$servers" 2
    least=20
    records nginx "$servers" "$python" client.py n.sock http
else
    skip "nginx" "no nginx"
fi

fpm=$(find /usr/sbin /usr/local/sbin -name 'php-fpm*' 2>/dev/null | head -n 1)
if [ -n "$fpm" ] && { [ "$(id -u)" != 0 ] || others_can; }; then
    cat >fpm.conf <<CONF
[global]
pid = $work/fpm.pid
error_log = $work/fpm.log
daemonize = yes
[www]
listen = $work/f.sock
pm = static
pm.max_children = 2
$([ "$(id -u)" != 0 ] || echo 'user = 65534
group = 65534')
CONF
    service "$fpm" -n -y "$work/fpm.conf"
    is "php-fpm starts" $? 0
    servers=$(cat fpm.pid)
    check "php-fpm has its workers" soon has_children "$servers" 2
    echo '<?php echo "200 OK";' >x.php
    # Most of its memory comes from php's own heap.
    least=1
    records php-fpm "$servers" "$python" client.py f.sock fastcgi
else
    skip "php-fpm" "${why_no_others:-no php-fpm}"
fi

pg=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V |
    tail -n 1)
if [ -x "$pg/pg_ctl" ] && [ -x "$pg/psql" ] &&
    { [ "$(id -u)" != 0 ] || others_can; }; then
    [ "$(id -u)" != 0 ] || as="setpriv --reuid 65534 --clear-groups"
    mkdir pg
    [ -z "$as" ] || chown 65534 pg
    $as "$pg/initdb" -N -A trust -U me -D "$work/pg/data" >initdb.out 2>&1
    is "initdb" $? 0
    service "$pg/pg_ctl" -D "$work/pg/data" -l "$work/pg/log" -w \
        -o "-c listen_addresses='' -k $work/pg" start
    is "postgres starts" $? 0
    servers=$(head -n 1 pg/data/postmaster.pid)
    as=
    mkfifo sql
    "$pg/psql" -q -h "$work/pg" -U me postgres <sql >psql.out 2>&1 &
    exec 8>sql
    query() {
        echo "select count(distinct i::text) from generate_series(1, 9999) i;
\\! touch $work/answered" >&8
        soon rm answered
    }
    query
    least=10
    records postgres "$servers" query
    exec 8>&-
    like "postgres: the session has both answers" psql.out 9999
else
    skip "postgres" "${why_no_others:-no pg_ctl and psql}"
fi
tap_end
