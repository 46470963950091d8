#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace report --serve: a page that follows a running process, whoever
# asks and however, up to its end and beyond. With LONG=1 a browser looks at it.
. "$top_srcdir/tests/lib/harness.sh"
. "$top_srcdir/tests/lib/browser.sh"
need_preload
need "$malloc_trace"
need_python
: "${CC:=cc}"
if [ "${TCM_HAVE_MICROHTTPD:-no}" != yes ]; then
    fails_with "built without libmicrohttpd: says so" 1 \
        "$malloc_trace" report --serve 127.0.0.1:0 nothing
    like "by its name" "$err" 'libmicrohttpd'
    tap_end
    exit
fi
need_command curl
$CC -g -O1 -fno-builtin -o leak "$here/report/report_leak.c" 2>"$err" ||
    skip_all "no compiler for a program"

server=
program=
cleanup() {
    # shellcheck disable=SC2086
    kill -9 $server $program 2>/dev/null
}
# serve OPTION...: in the background; its address in $url, its port in $port.
serve() {
    : >said
    # A shell's children in the background ignore SIGINT.
    env --default-signal=INT "$malloc_trace" report "$@" >said \
        2>server.err &
    server=$!
    eventually 20 grep -q . said || {
        diag <server.err
        return 1
    }
    url=$(sed -n '/^http/p' said)
    port=${url##*:}
    port=${port%%/*}
}
# stop SIGNAL: the server; its exit status in $status.
stop() {
    kill -"$1" $server
    wait $server
    status=$?
    server=
}
page() { curl -s -m 10 "$@" "$url"; }
code() { curl -s -m 10 -o /dev/null -w '%{http_code}' "$@"; }
# row PLACE: calls and live bytes of a row of the page's data.
row() {
    page >page.html && "$python" -c 'import json, re, sys
data = json.loads(re.search(r"id=\"data\">(.*?)</script>",
                            open("page.html").read(), re.S)[1])
for r in data["rows"]:
    if r[0].startswith(sys.argv[1]):
        print(r[2], r[3], data["running"])' "$1"
}
has_row() { [ "$(row "$1")" = "$2" ]; }
# children PID: of it that live, and theirs.
children() {
    "$python" -c 'import glob, sys
found, parent = {int(sys.argv[1])}, {}
for name in glob.glob("/proc/[0-9]*/stat"):
    try:
        state, above = open(name).read().rpartition(")")[2].split()[:2]
    except OSError:
        continue
    if state != "Z":
        parent[int(name.split("/")[2])] = int(above)
while new := {p for p in parent if parent[p] in found} - found:
    found |= new
    print(*new, sep="\n")' "$1"
}
# bytes_read: by those that read the trace, so far.
bytes_read() {
    for reader in $(children $server); do
        cat "/proc/$reader/io"
    done 2>/dev/null | awk '/^rchar/ { n += $2 } END { print n + 0 }'
}
# as_new: the page has the figures of a report that is made now.
as_new() {
    page >page.html && "$malloc_trace" report --quiet --by=function \
        --to=html -o new.html "$work/t" 2>/dev/null
    "$python" -c 'import json, re
page, new = (json.loads(re.search(r"id=\"data\">(.*?)</script>",
                                  open(name).read(), re.S)[1])
             for name in ("page.html", "new.html"))
assert new["rows"]
for key in new:
    assert page[key] == new[key], (key, page[key], new[key])'
}
place=lose
[ "${TCM_HAVE_LIBDW:-no}" = yes ] || place=leak+

# A process, by its number.
mkfifo input
TCMALLOC_TRACE_SITES=caller LD_PRELOAD=$tracing \
    TCMALLOC_TRACE_OUTPUT=$work/t ./leak <input >answers &
program=$!
exec 7>input
echo 100 >&7
eventually 10 grep -q '^done' answers
serve --by=function --serve 127.0.0.1:0 $program
result "a page of a running process" $?
like "at an address of this machine" said \
    '^http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/$'
if [ $place = lose ]; then
    eventually 20 has_row lose "100 100000 True"
    result "has what was lost until now" $?
    echo 250 >&7
    eventually 20 has_row lose "350 350000 True"
    result "and then what was lost since" $?
    lost=350
    for n in 1 2 3 4 5; do
        echo 30 >&7
        lost=$((lost + 30))
        eventually 20 has_row lose "$lost ${lost}000 True"
    done
    has_row lose "500 500000 True"
    result "again and again" $?
    lines=8
else
    skip "what was lost" "built without elfutils"
    lost=
    lines=2
fi
eventually 20 as_new
result "with all figures of a report that is made now" $?

# No part of a trace is read twice, however long it is.
echo 300000 >&7
many() { [ "$(wc -l <answers)" = "$1" ]; }
eventually 60 many "$lines"
eventually 30 as_new
result "and when much was added" $?
before=$(bytes_read)
etag() { page -I | sed -n 's/^ETag: //p'; }
first=$(etag)
is_later() { [ "$(etag)" != "$first" ]; }
eventually 20 is_later
first=$(etag)
eventually 20 is_later
after=$(bytes_read)
# How well a trace compresses depends on how often it was flushed.
at_least "the trace is long" "$(wc -c <t)" 10000
at_least "and not read again for two pages" 5000 $((after - before))
is "by one process that orders and reads" "$(children $server | wc -l)" 1
[ -z "$lost" ] || lost=$((lost + 300000))
page -D head >page.html
like "says that it is being recorded" page.html 'still being recorded'
like "and what is alive now" page.html 'alive now'
grep -v 'Content-Security\|ETag\|Date' head | tr -d '\r' >rest
like "no other site reads it" rest '^Cross-Origin-Resource-Policy: same-origin$'
like "no type is guessed" rest '^X-Content-Type-Options: nosniff$'
like "nothing is kept" rest '^Cache-Control: no-cache$'
is "HEAD" "$(code -I "$url")" 200
for method in POST PUT DELETE PATCH OPTIONS; do
    is "no $method" "$(code -X $method "$url")" 405
done
curl -s -m 10 -X POST -D head -o /dev/null "$url"
like "what there is instead" head '^Allow: GET, HEAD'
is "no body" "$(code -X GET -d x "$url")" 413
is "no other path" "$(code "${url}etc/passwd")" 404
bare=http://127.0.0.1:$port
first=${url#"$bare/"}
for folder in "" page.js "${first%?}" "${first%??}/" "0${first#?}" "1${first#?}" \
    "${first}x" "/$first"; do
    [ "$folder" = "$first" ] ||
        is "not at /$folder, without the token" "$(code "$bare/$folder")" 404
done
is "the script" "$(code "${url}page.js")" 200
is "a query changes nothing" "$(code "$url?x=1&y=../..")" 200
is "by localhost, too" "$(code -H "Host: LocalHost:$port" "$url")" 200
is "not by another name" "$(code -H "Host: rebound.example:$port" "$url")" 421
"$python" "$here/report/report_serve.py" "$url" >tap 2>"$err" || diag <"$err"
pass_on tap

if [ -z "$browser" ]; then
    skip "in a browser" "$why_no_browser"
else
    browse_ms=6000 browse "$url" --dump-dom
    browsed_text >text
    like "in a browser: follows" text '^Following the recording; as of '
    result "in a browser: no message of the script" \
        "$(grep -c 'INFO:CONSOLE' "$err")"
    [ $place != lose ] ||
        is "in a browser: most of what is alive stands first" \
            "$(grep -o '<td class="place">[^<]*' "$out" | sed -n 2p)" \
            '<td class="place">lose'
fi

# Its end.
kill -9 $program
wait $program 2>/dev/null
program=
exec 7>&-
is_over() {
    page >page.html && grep -q '"running": false' page.html
}
eventually 30 is_over
result "the process was killed: its last state" $?
[ $place != lose ] || is "with all of it" "$(row lose)" "$lost ${lost}000 False"
stop TERM
is "SIGTERM ends it" $status 0
is "and its port" "$(code "$url")" 000
diag <server.err; [ ! -s server.err ]
result "with no word about what is no fault" $?

# A file, at a socket.
serve --serve "$work/s" t
result "a page at a socket" $?
is "that its user alone can use" "$(stat -c '%a %F' s)" "600 socket"
is "answers" "$(code --unix-socket s http://localhost/)" 200
is "but to no other name" "$(code --unix-socket s http://evil.example/)" 421
fails_with "one that is in use is not taken" 1 \
    "$malloc_trace" report --serve "$work/s" t
stop INT
is "SIGINT ends it" $status 0
[ ! -e s ]
result "and the socket's name" $?
serve --serve ./s t
kill -9 $server
wait $server 2>/dev/null
serve --serve ./s t
result "what a killed one left is taken" $?
is "and answers" "$(code --unix-socket s http://localhost/)" 200
stop TERM
echo kept >file
fails_with "a file is not" 1 "$malloc_trace" report --serve ./file t
is "and stays" "$(cat file)" kept

# A flight recording is read anew each time, which is said once.
mkfifo again
TCMALLOC_TRACE_KEEP_MB=8 TCMALLOC_TRACE_SITES=caller LD_PRELOAD=$tracing \
    TCMALLOC_TRACE_OUTPUT=$work/k ./leak <again >answers &
program=$!
exec 7>again
echo 10 >&7
eventually 10 grep -q '^done' answers
eventually 10 test -s k.k0
serve --by=function --serve 127.0.0.1:0 k
result "a flight recording" $?
[ $place != lose ] || {
    eventually 20 has_row lose "10 10000 True"
    echo 10 >&7
    eventually 20 has_row lose "20 20000 True"
    result "is followed, too" $?
}

# A server that is killed leaves nobody.
readers=$(children $server)
kill -9 $server
wait $server 2>/dev/null
server=
are_gone() {
    for reader in $readers; do
        ! grep -qs '^State:[[:space:]]*[^Z]' "/proc/$reader/status" || return 1
    done
}
serve --serve 127.0.0.1:0 t
readers="$readers $(children $server)"
kill -9 $server
wait $server 2>/dev/null
server=
eventually 20 are_gone
result "a server that is killed leaves nobody behind" $?
is "what it said, it said once" "$(grep -c 'still being' server.err)" 0
exec 7>&-
wait $program
program=

# A damaged trace.
head -c "$(($(wc -c <t) * 2 / 3))" t >cut
serve --serve 127.0.0.1:0 cut
result "a page of a cut trace" $?
page >page.html
like "says so" page.html 'cut, damaged or lacks events'
stop TERM

fails_with "other machines are not served" 2 \
    "$malloc_trace" report --serve 0.0.0.0:0 t
like "unless that is said" "$err" '--anyone'
fails_with "nor by IPv6" 2 "$malloc_trace" report --serve '[::]:0' t
serve --anyone --serve 0.0.0.0:0 t
result "then they are" $?
like "with a token, too" said '/[0-9a-f]{32}/$'
before=$url
stop TERM
serve --no-token --serve 127.0.0.1:0 t
like "without one if that is said" said '^http://127\.0\.0\.1:[0-9]+/$'
is "the page" "$(code "$url")" 200
stop TERM
serve --serve 127.0.0.1:0 t
[ "${url#*:*:*/}" != "${before#*:*:*/}" ]
result "another token each time" $?
stop TERM
fails_with "what --no-token is for" 2 "$malloc_trace" report --no-token t
fails_with "no trace" 1 "$malloc_trace" report --serve 127.0.0.1:0 nothing
fails_with "a process that is not recorded" 1 \
    "$malloc_trace" report --serve 127.0.0.1:0 $$
fails_with "none" 1 "$malloc_trace" report --serve 127.0.0.1:0 2147483646
for wrong in 127.0.0.1 localhost:80 127.0.0.1:x 127.0.0.1:65536 '[::1' ''; do
    fails_with "no address: $wrong" 2 \
        "$malloc_trace" report --serve "$wrong" t
done
fails_with "a page alone" 2 "$malloc_trace" report --serve :0 --to=csv -o x t
fails_with "of one trace" 2 "$malloc_trace" report --serve :0 t cut
fails_with "whom --anyone is for" 2 "$malloc_trace" report --anyone t
tap_end
