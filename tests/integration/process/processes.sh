#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Which process is recorded where, and that its life and end are as without us:
# fork, vfork, exec, daemons, threads that come and go, calls before main and
# after the library's destructor.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/process/process_target" "$postprocess"
need_python
target=$built/process/process_target
TCMALLOC_TRACE_UNCOMPRESSED=1
export TCMALLOC_TRACE_UNCOMPRESSED

# files PATTERN: names in the scratch folder, hidden ones too, sorted.
files() { (cd "$work/t" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort |
    tr '\n' ' ' | sed 's/ $//'); }
fresh() { rm -rf "$work/t" && mkdir "$work/t"; }

# allocations FILE SIZE: how many allocations of SIZE the recording holds.
allocations() {
    allocations_file=$1
    allocations_size=$2
    set --
    [ -e "$allocations_file" ] && set -- "$allocations_file"
    [ -e "$allocations_file.spool" ] && set -- "$@" "$allocations_file.spool"
    if [ $# = 0 ]; then
        echo none
    elif "$python" "$test_lib/rawdump.py" "$@" >"$work/list" 2>"$work/err"; then
        grep -c " malloc $allocations_size ->" "$work/list"
    else
        cat "$work/err"
    fi
}

# whole NAME FILE CLEAN_END
whole() {
    if "$postprocess" --quiet --json "$work/json" "$2" "$work/p" \
        2>"$work/err"; then
        is "$1: whole" "$(json "$work/json" complete clean_end \
            unmatched_frees order_conflicts)" "true $3 0 0"
    else
        fail "$1: postprocess of $(basename "$2")"
        diag <"$work/err"
    fi
}

# ends NAME STATUS OUT MODE...: unrecorded and recorded end the same.
ends() {
    ends_name=$1
    ends_want=$2
    ends_out=$3
    shift 3
    fresh
    (
        cd "$work/t" || exit 99
        # The subshell is not what is recorded: only what it execs is.
        record "$ends_out" "$target" "$@" >"$work/out" 2>"$work/stderr"
        echo $? >"$work/status"
    ) 2>/dev/null
    is "$ends_name: exit status" "$(cat "$work/status")" "$ends_want"
    # The shell itself names a signal.
    case $ends_want in
    134 | 139) ;;
    *) is "$ends_name: nothing on stderr" "$(cat "$work/stderr")" "" ;;
    esac
}

ends plain 0 t plain
is "plain: one file, no spool, nothing hidden" "$(files)" t
is "plain: calls in main" "$(allocations "$work/t/t" 70001)" 100
is "plain: calls in an exit handler" "$(allocations "$work/t/t" 70005)" 20
whole plain "$work/t/t" true

ends status 41 t status 41
whole status "$work/t/t" true

for mode in fork raw; do
    ends $mode 0 t $mode 100
    is "$mode: only the first process is recorded" "$(files)" t
    is "$mode: the parent's calls" "$(allocations "$work/t/t" 70001)" 400
    is "$mode: none of the child's" "$(allocations "$work/t/t" 70002)" 0
    whole $mode "$work/t/t" true

    ends "$mode %p" 0 't.%p' $mode 100
    is "$mode %p: a file a process" "$(files | wc -w)" 4
    parents=0
    children=0
    for f in "$work"/t/t.*; do
        case $f in *.spool) continue ;; esac
        parents=$((parents + $(allocations "$f" 70001)))
        children=$((children + $(allocations "$f" 70002)))
        "$postprocess" --quiet --json "$work/json" "$f" "$work/p" \
            2>"$work/err" ||
            { fail "$mode %p: $f"; diag <"$work/err"; }
    done
    if [ $mode = fork ]; then
        is "$mode %p: every call" "$parents $children" "400 300"
    fi
done

ends vfork 0 t vfork
is "vfork: only the first process" "$(files)" t
whole vfork "$work/t/t" true
ends "vfork %p" 0 't.%p' vfork
is "vfork %p: two files" "$(files | wc -w)" 2
sum=0
for f in "$work"/t/t.*; do sum=$((sum + $(allocations "$f" 70006))); done
is "vfork %p: the exec'd program's calls" $sum 50

ends exec 0 t exec 3
is "exec in place: goes on in numbered files" \
    "$(files | tr ' ' '\n' | grep -v spool | tr '\n' ' ')" "t t.1 t.2 t.3 "
for f in t t.1 t.2; do whole "exec in place: $f" "$work/t/$f" false; done
whole "exec in place: t.3" "$work/t/t.3" true
# told FILE: where postprocess says that the process went on recording to.
told() {
    (cd "$work/t" && "$postprocess" "$1" "$work/p" 2>&1) |
        sed -n 's/^  the process went on recording to \(.*\), after an exec .*/\1/p'
}
is "exec in place: what follows the first is told" "$(told t)" "t.1 to t.3"
is "exec in place: and the second" "$(told t.2)" "t.3"
is "exec in place: nothing follows the last" "$(told t.3)" ""
cp "$work/t/t" "$work/t/u"
[ ! -e "$work/t/t.spool" ] || cp "$work/t/t.spool" "$work/t/u.spool"
cp "$top_srcdir/tests/data/raw-v1" "$work/t/u.1"
is "exec in place: nor what another process recorded" "$(told u)" ""
is "exec in place: calls of the first image" \
    "$(allocations "$work/t/t" 70001)" 100
is "exec in place: calls of the last" "$(allocations "$work/t/t.3" 70006)" 50

ends "exec %p" 0 't.%p' exec 2
# An image that is replaced leaves its spool alone.
is "exec in place with %p: numbered files" \
    "$(files | sed 's/[0-9][0-9][0-9]*/PID/g')" \
    "t.PID.1.spool t.PID.2 t.PID.spool"
sum=0
for f in "$work"/t/t.*; do
    sum=$((sum + $(allocations "${f%.spool}" 70001)))
    whole "exec in place with %p: $(basename "$f" | sed 's/[0-9]\{2,\}/PID/')" \
        "${f%.spool}" "$(case $f in *.spool) echo false ;; *) echo true ;; esac)"
done
is "exec in place with %p: calls of all images" $sum 300

for wrapper in "env A=1" "nice" "sh -c 'exec \"\$@\"' sh"; do
    fresh
    (cd "$work/t" && eval "record t $wrapper $target after_exec")
    is "$wrapper: exit status" $? 0
    is "$wrapper: the program's calls are in t.1" \
        "$(allocations "$work/t/t.1" 70006)" 50
done
fresh
# Some shells end by _exit, which leaves the spool.
(cd "$work/t" && record t sh -c "$target after_exec; $target after_exec; :")
is "shell: only the shell is recorded" "$(files | sed 's/ t.spool//')" t
is "shell: complete" "$("$postprocess" --quiet --json "$work/json" "$work/t/t" \
    "$work/p" 2>&1; json "$work/json" complete unmatched_frees)" "true 0"
fresh
(cd "$work/t" && record 't.%p' \
    sh -c "$target after_exec; ($target after_exec; :) | cat; :")
sum=0
for f in "$work"/t/t.*; do
    case $f in *.spool) continue ;; esac
    sum=$((sum + $(allocations "$f" 70006)))
done
is "shell %p: the programs' calls" $sum 100
is "shell %p: nothing hidden is left" "$(files | tr ' ' '\n' | grep -c '^\.')" 0

# %e and %%
fresh
(cd "$work/t" && record 'x-%e-%%' "$target" plain)
is "%e and %% in the name" "$(files)" "x-process_target-%"
fresh
ln -sf "$target" "$work/link"
(cd "$work/t" && record 'x-%e' ../link plain)
is "%e of a link is the link's name" "$(files)" "x-link"
fresh
printf '#!%s plain\n' "$work/link" >"$work/script" && chmod +x "$work/script"
(cd "$work/t" && record 'x-%e' ../script)
is "%e of a script is its interpreter's" "$(files)" "x-process_target"
fresh
(cd "$work/t" && record 'x-%e.%p' sh -c "exec $work/link plain")
is "%e after exec" "$(files | tr ' ' '\n' | grep -c '^x-link\.')" 1
fresh
(cd "$work/t" && record 'x-%e.%p' env /proc/self/exe "$target" plain)
is "%e is no name of the kernel's" \
    "$(files | tr ' ' '\n' | grep -c '^x-exe\.')" 0

# Names that are taken.
fresh
echo precious >"$work/t/t"
ln "$work/t/t" "$work/t/other"
(cd "$work/t" && record t "$target" plain)
is "an existing output is replaced" "$(allocations "$work/t/t" 70001)" 100
is "and what had it open keeps it" "$(cat "$work/t/other")" precious
fresh
(cd "$work/t" && record t "$target" sleep 600) &
sleep 0.25
(cd "$work/t" && record t "$target" plain)
wait $!
is "a living recording is not replaced" "$(allocations "$work/t/t" 70001)" 100
is "the second recording goes to .1" "$(allocations "$work/t/t.1" 70001)" 100
whole "the first of two" "$work/t/t" true
whole "the second of two" "$work/t/t.1" true

# Ends.
ends _exit 7 t _exit 7
is "_exit: calls" "$(allocations "$work/t/t" 70001)" 100
whole _exit "$work/t/t" false
ends abort 134 t abort
is "abort: calls" "$(allocations "$work/t/t" 70001)" 100
whole abort "$work/t/t" false
ends segv 139 t segv
is "segv: calls" "$(allocations "$work/t/t" 70001)" 100
whole segv "$work/t/t" false

n=1000
[ "${LONG:-0}" = 1 ] && n=100000
ends "threads that come and go" 0 t threads $n
if [ $n = 1000 ]; then
    is "threads: their calls" "$(allocations "$work/t/t" 70003)" $((n * 10))
    is "threads: calls in destructors of thread storage" \
        "$(allocations "$work/t/t" 70004)" $((n * 6))
fi
whole "threads" "$work/t/t" true
at_least "threads: each counts" "$(json "$work/json" threads)" $((n + 1))
ends "exit with threads" 0 t exit_with_threads
is "exit with threads: the exit handler's calls" \
    "$(allocations "$work/t/t" 70005)" 20

ends "close all descriptors" 0 t close_all
is "close all: calls" "$(allocations "$work/t/t" 70001)" 100100
whole "close all" "$work/t/t" true

# daemon() ends the first process by _exit.
ends daemon 0 t daemon
sleep 0.3
is "daemon: the first process alone is recorded" "$(files)" "t t.spool"
is "daemon: none of the daemon's calls" "$(allocations "$work/t/t" 70002)" 0
ends "daemon %p" 0 't.%p' daemon
sleep 0.5
sum=0
for f in "$work"/t/t.*; do
    case $f in *.spool) continue ;; esac
    sum=$((sum + $(allocations "$f" 70002)))
done
is "daemon %p: the daemon's calls" $sum 200

ends "chdir" 0 t chdir
is "chdir: the name was made absolute" "$(allocations "$work/t/t" 70001)" 200100
if [ "$(id -u)" = 0 ]; then
    chmod 755 "$work"
    ends "setuid" 0 t setuid
    is "setuid: calls" "$(allocations "$work/t/t" 70001)" 200100
    whole setuid "$work/t/t" true
else
    skip "setuid" "not root"
fi

# Before our constructor and after our destructor.
: "${CC:=cc}"
if $CC -shared -fPIC -o "$work/libprocess_late.so" "$here/process/process_late.c" \
    2>"$work/err" && echo 'extern int process_late_used; int main(void) {
    return process_late_used; }' >"$work/late.c" &&
    $CC -o "$work/late" "$work/late.c" -L"$work" -lprocess_late \
        -Wl,-rpath,"$work" 2>>"$work/err"; then
    # With %p the program's own thread writes the file at the library's
    # destructor, and the saver is made by the first call that comes later.
    for out in t x.%p; do
        for calls in 0 30 5000; do
            name="late $calls to $out"
            fresh
            (cd "$work/t" && LATE_CALLS=$calls record "$out" "$work/late")
            is "$name: exit status" $? 0
            f=$(find "$work/t" -type f ! -name '*.spool')
            is "$name: calls before main" "$(allocations "$f" 71001)" 100
            is "$name: calls after the library's destructor" \
                "$(allocations "$f" 71002)" $calls
            "$postprocess" --quiet --json "$work/json" "$f" "$work/p"
            is "$name: complete, each block's end is there" \
                "$(json "$work/json" complete unmatched_frees untraced_frees)" \
                "true 0 0"
            "$python" "$test_lib/rawdump.py" --counts "$work"/t/* >"$work/counts"
            is "$name: the same as the stranger counts" \
                "$(json "$work/json" events live_at_end)" \
                "$(json "$work/counts" events live_at_end)"
        done
    done
else
    skip "calls before main and after the end" "no compiler"
fi
tap_end
