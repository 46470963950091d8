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
sed -n '/^## One command/,/^## Get it/s/^    //p' "$top_srcdir/README.md" |
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
# A tool of Kubernetes that needs no cluster.
if have kubectl; then
    mkdir kube
    cp pod.yaml kube/
    printf 'resources:\n  - pod.yaml\n' >kube/kustomization.yaml
    check "pod: kubectl reads it" timeout 60 kubectl kustomize kube
else
    skip "pod: kubectl reads it" "no kubectl here"
fi
tap_end
