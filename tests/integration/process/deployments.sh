#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recipes of doc/containers.md, in namespaces instead of their engines: what
# the Dockerfile copies and sets records a program in an image; so does a pod whose
# init container ran; a service with the drop-in records when it is asked to, as
# README's server does.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$postprocess" "$malloc_trace" "$built/recorder/exchange" \
    "$built/recorder/control_target"
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES DESTDIR
page=$top_srcdir/doc/containers.md

# block LANGUAGE: the page's block of code in that language.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$page" | sed '1d; $d'; }
block dockerfile >Dockerfile
block yaml >pod.yaml
block ini >malloc-trace.conf
for file in Dockerfile pod.yaml malloc-trace.conf; do
    check "the page has a $file" [ -s $file ]
done

# whole NAME FILE LEAST: a trace.
whole() {
    "$postprocess" --quiet --json json "$2" p >out 2>err
    is "$1: whole" "$? $(json json complete clean_end)" "0 true true"
    at_least "$1: events" "$(json json events)" "$3"
}

# --- A service ---------------------------------------------------------------

# systemd's specifiers, and /var/lib in the work folder.
sed -n 's/^Environment=//p' malloc-trace.conf | sed "s,%N,app,g; s,%%,%,g
    s,/var/lib/,$work/state/,; s,=libtcmalloc_minimal_tracing.so,=$tracing," |
    tr ' ' '\n' >service.env
folder=$(sed -n 's/^StateDirectory=//p' malloc-trace.conf | sed 's,%N,app,')
mkdir -p "state/$folder"
mkfifo in out.pipe
# shellcheck disable=SC2046
env $(cat service.env) "$built/recorder/control_target" serve <in >out.pipe \
    2>target.err &
pid=$!
exec 7>in
read -r line <out.pipe
is "service: it runs" "$line" ready
is "service: nothing is recorded" "$(find state -type f)" ""
check "service: start" timeout 60 "$malloc_trace" ctl $pid start
check "service: a recording in its folder" [ -e "state/$folder/$pid.lz4" ]
check "service: stop" timeout 60 "$malloc_trace" ctl $pid stop
exec 7>&-
wait $pid
is "service: nothing on stderr" "$(cat target.err)" ""
whole "service" "state/$folder/$pid.lz4" 1

# --- README's server ---------------------------------------------------------

# Its input ends when descriptor 7 is closed.
cp "$built/recorder/control_target" server
sed -n '/^### Attach to a server/,/^## Build and install/s/^    //p' "$top_srcdir/README.md" |
    sed 's,\./server &,./server serve <in >out.pipe \& exec 7>in; read -r line <out.pipe,' \
        >commands
at_least "server: README's commands" "$(wc -l <commands)" 3
run env PATH="$tools:$PATH" LD_LIBRARY_PATH="$top_builddir/.libs" timeout 60 \
    sh -e commands
is "server: they succeed" "$status $(cat "$err")" "0 "
whole "server" server.lz4 1

# --- systemd's check ---------------------------------------------------------

# systemd knows the settings, where it is; it complains of those that it does not.
if have systemd-analyze; then
    mkdir -p units/app.service.d
    cp malloc-trace.conf units/app.service.d/
    printf '[Service]\nExecStart=/bin/true\n' >units/app.service
    SYSTEMD_UNIT_PATH=$work/units: timeout 60 systemd-analyze --man=no verify \
        units/app.service >verified 2>&1
    is "service: systemd's own check" "$(grep -E 'app|malloc-trace' verified)" ""
else
    skip "service: systemd's own check" "no systemd-analyze here"
fi

# --- An image ----------------------------------------------------------------

if ! unshare -Urm true 2>/dev/null; then
    skip "images" "unshare -Urm is refused"
    tap_end
fi

# The first stage's files: what make install makes there.
prefix=$(sed -n 's/.*--prefix=\([^ ]*\).*/\1/p' Dockerfile)
run make -s -C "$top_builddir" install-exec DESTDIR="$work/stage" \
    prefix="$prefix" exec_prefix="$prefix" bindir="$prefix/bin" \
    libdir="$prefix/lib"
is "image: make install" $status 0

# container ROOT COMMAND...: with the variables of env, in that folder as root of
# files, beside the system's programs and libraries.
cat >inside <<'END2'
root=$1
shift
for folder in usr bin lib lib64 proc; do
    [ -e "/$folder" ] || continue
    if [ -L "/$folder" ]; then
        cp -P "/$folder" "$root/" 2>/dev/null
    else
        mkdir -p "$root/$folder" &&
            mount --rbind "/$folder" "$root/$folder" || exit 90
    fi
done
for volume in "$root".*; do
    [ ! -d "$volume" ] || mount --bind "$volume" "$root/${volume##*.}" || exit 91
done
exec chroot "$root" env -i PATH=/usr/bin:/bin $(cat env) "$@"
END2
container() {
    timeout 60 unshare -Urm sh inside "$@" >said 2>err </dev/null
}

mkdir -p image/traces
sed -n 's/^COPY --from=malloc-trace //p' Dockerfile >copies
while read -r from to; do
    mkdir -p "image$to"
    cp -R "stage$from/." "image$to"
done <copies
sed -n 's/^ENV //p' Dockerfile >env
cp "$built/recorder/exchange" image/app
want=$(./image/app 3 1000)
container "$work/image" "$(sed -n 's/^CMD \["\(.*\)"\]/\1/p' Dockerfile)" 3 1000
is "image: the program's output" "$(cat said)" "$want"
is "image: nothing on stderr" "$(cat err)" ""
whole "image" "$(find image/traces -name 'app.*.lz4')" 3000

# --- A pod -------------------------------------------------------------------

# Volumes are folders ROOT.NAME, mounted as /NAME in both containers.
for name in tracer traces; do
    is "pod: $name is mounted by its name" \
        "$(grep -o "{name: $name, mountPath: [^,} ]*" pod.yaml | sort -u)" \
        "{name: $name, mountPath: /$name"
    mkdir -p "pod/$name" "pod.$name" "init/$name"
done
ln -s pod.tracer init.tracer
mkdir -p "init${prefix%/*}"
cp -R "stage$prefix" "init${prefix%/*}"
: >env
# shellcheck disable=SC2046
container "$work/init" $(sed -n 's/^ *command: \[\(.*\)\]/\1/p' pod.yaml |
    tr -d ,)
is "pod: the init container" $? 0
diag <err
sed -n 's/^ *- {name: \([A-Z_]*\), value: \(.*\)}/\1=\2/p' pod.yaml >env
cp image/app pod/app
container "$work/pod" /app 3 1000
is "pod: the program's output" "$(cat said)" "$want"
is "pod: nothing on stderr" "$(cat err)" ""
whole "pod" "$(find pod.traces -name 'app.*.lz4')" 3000

# Recorded only when a container beside it asks: process 1 of a process namespace,
# in the pod's network, which the debugging container enters.
sed -n '/^To record only when/,/^costs/p' "$page" | tr '\n' ' ' |
    grep -oE '`TCMALLOC[A-Z_]*` with the value `"[0-9]"`' |
    sed 's/`\(.*\)` with the value `"\(.*\)"`/\1=\2/' >>env
asked=$(sed -n '/^ *kubectl debug/,/^$/s,.*/bin/malloc-trace ,,p' "$page")
is "pod: the page's command" "$asked" "ctl 1 start"
cp "$built/recorder/control_target" pod/app
rm -rf pod.traces/*
mkfifo pod.in pod.out
unshare -Urmnpf --kill-child sh inside "$work/pod" /app serve <pod.in \
    >pod.out 2>err &
engine=$!
exec 7>pod.in
read -r line <pod.out
is "pod: it runs when asked to" "$line" ready
pid=$(cat /proc/[0-9]*/stat 2>/dev/null | sed 's/ (.*) . / /' |
    awk -v parent=$engine '$2 == parent { print $1 }')
is "pod: nothing is recorded" "$(find pod.traces -type f)" ""
for command in "$asked" "ctl 1 stop"; do
    # shellcheck disable=SC2086
    check "pod: $command" timeout 60 nsenter -t "$pid" -U -n -p \
        --preserve-credentials "$malloc_trace" $command
done
exec 7>&-
wait $engine
is "pod: nothing on stderr then" "$(cat err)" ""
whole "pod, when asked" "$(find pod.traces -name 'app.1.lz4')" 1
# A tool of Kubernetes that needs no cluster.
if have kubectl; then
    mkdir kube
    cp pod.yaml kube/
    printf 'resources:\n  - pod.yaml\n' >kube/kustomization.yaml
    check "pod: kubectl reads it" timeout 60 kubectl kustomize kube
else
    skip "pod: kubectl reads it" "no kubectl here"
fi

# --- The image's first stage -------------------------------------------------

[ "${LONG:-0}" = 1 ] || tap_end
have debootstrap && [ "$(id -u)" -eq 0 ] && have git &&
    git -C "$top_srcdir" rev-parse HEAD >/dev/null 2>&1 || {
    skip "first stage" "not root, no debootstrap, or no clone"
    tap_end
}
case $(sed -n 's/^FROM debian:\([0-9]*\) AS .*/\1/p' Dockerfile) in
12) suite=bookworm ;;
13) suite=trixie ;;
*) suite=unknown ;;
esac
root=$work/first
run debootstrap --variant=minbase $suite "$root" \
    "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" || {
    skip "first stage" "no $suite: $(tail -n 1 "$out")"
    tap_end
}
cp /etc/resolv.conf "$root/etc/"
# A mirror may be a snapshot of some day.
echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/snapshot"
mkdir "$root/$(sed -n 's/^COPY malloc-trace //p' Dockerfile)"
git -C "$top_srcdir" archive HEAD | tar -xf - -C "$root/src"
sed '/^FROM/,$!d; /^FROM debian:[0-9]*$/,$d' Dockerfile |
    sed -e ':join' -e '/\\$/{N; s/\\\n//; b join' -e '}' |
    sed -n 's/^RUN //p' >stage.sh
is "first stage: its commands" "$(wc -l <stage.sh)" 2
cat >>stage.sh <<END3
LD_PRELOAD=$prefix/lib/malloc-trace/libtcmalloc_minimal_tracing.so \\
    TCMALLOC_TRACE_OUTPUT=/t.lz4 ls / >/dev/null
$prefix/bin/malloc-trace info /t.lz4 | grep mallocs
END3
cp stage.sh "$root/"
unshare -m --propagation private sh -c '
    for folder in proc sys dev; do
        mount --rbind "/$folder" "$1/$folder" || exit
    done
    exec chroot "$1" sh -e /stage.sh' sh "$root" >staged 2>&1 </dev/null
is "first stage: they succeed, and its library records" $? 0
[ "$tap_failed" -eq 0 ] || tail -n 20 staged | diag 20
tap_end
