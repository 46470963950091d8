#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Plans and tables of malloc-trace compare in other programs, with LONG=1: a
# Slurm array of one node, 1,000 jobs beside each other and one after the other,
# and DuckDB, which gets compare's own numbers from the CSV.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python
[ "${LONG:-0}" = 1 ] || skip_all "LONG=1 runs Slurm, DuckDB and 1,000 jobs"

make=$top_builddir/tests/unit/tools/replay_make
plan() {
    plan_dir=$1
    shift
    "$malloc_trace" compare -q -a glibc -a tcmalloc-mt --plan "$plan_dir" "$@"
}
# merged WHAT: the plan WHAT has all results; leaves WHAT.json.
merged() {
    run timeout 300 "$malloc_trace" compare --json "$1.json" --merge "$1"
    is "$1: every job has a result" "$status,$(cat "$err")" "0,"
}

# --- Slurm --------------------------------------------------------------------

# One node that is this machine, with its own munge key, ports and folders. The
# daemons end after 300 s even where this test is killed.
daemons=
stop_slurm() {
    [ -z "$daemons" ] || {
        timeout 10 scancel --user=root && within 20 is_empty
        # shellcheck disable=SC2086
        kill $daemons
        # shellcheck disable=SC2086
        wait $daemons
    } >slurm/stop.out 2>&1
    daemons=
}
cleanup() { stop_slurm; }

# within SECONDS COMMAND...: as eventually, where the command itself may wait.
within() {
    within_end=$(($(date +%s) + $1))
    shift
    until "$@" >slurm/within.out 2>&1; do
        [ "$(date +%s)" -lt $within_end ] || return 1
        sleep 0.5
    done
}
responds() { munge -S "$work/slurm/munge" -n; }
is_idle() { [ "$(timeout 10 sinfo -h -o %t)" = idle ]; }
is_empty() { timeout 10 squeue -h >slurm/queue && [ ! -s slurm/queue ]; }

# daemon NAME COMMAND...
daemon() {
    daemon_log=slurm/$1.out
    shift
    timeout -k 5 300 "$@" >"$daemon_log" 2>&1 &
    daemons="$daemons $!"
}

start_slurm() {
    node=$(hostname -s)
    mkdir -p slurm/state slurm/spool
    # Older ones do not know "disabled"; nothing here makes a group.
    groups=disabled
    case $(slurmd -V) in *' 2'[0-2].*) groups=cgroup/v1 ;; esac
    echo "CgroupPlugin=$groups" >slurm/cgroup.conf
    "$python" - >slurm/ports <<'END'
import socket
sockets = [socket.socket() for name in ("SlurmctldPort", "SlurmdPort")]
for name, s in zip(("SlurmctldPort", "SlurmdPort"), sockets):
    s.bind(("127.0.0.1", 0))
    print("%s=%d" % (name, s.getsockname()[1]))
END
    cat - slurm/ports >slurm/slurm.conf <<END
ClusterName=compare
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$work/slurm/munge
StateSaveLocation=$work/slurm/state
SlurmdSpoolDir=$work/slurm/spool
SlurmctldPidFile=$work/slurm/slurmctld.pid
SlurmdPidFile=$work/slurm/slurmd.pid
SlurmctldLogFile=$work/slurm/slurmctld.log
SlurmdLogFile=$work/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
MailProg=/bin/true
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(getconf _NPROCESSORS_ONLN)
PartitionName=all Nodes=$node Default=YES State=UP
END
    SLURM_CONF=$work/slurm/slurm.conf
    export SLURM_CONF
    (umask 077 && head -c 1024 /dev/urandom >slurm/key)
    daemon munged munged --foreground --force --num-threads=2 \
        --key-file="$work/slurm/key" --socket="$work/slurm/munge" \
        --pid-file="$work/slurm/munge.pid" --seed-file="$work/slurm/seed" \
        --log-file="$work/slurm/munge.log"
    within 20 responds || return 1
    daemon slurmctld slurmctld -D -i
    daemon slurmd slurmd -D
    within 60 is_idle
}

# in_array NAME: the plan NAME as a job array; waits for its end.
in_array() {
    in_array_jobs=$work/$1/jobs.txt
    sbatch --array="1-$(wc -l <"$in_array_jobs")" --output="$work/slurm/%a.txt" \
        --wrap "sed -n \"\${SLURM_ARRAY_TASK_ID}p\" '$in_array_jobs' | sh" &&
        within 150 is_empty
}

# what a verdict is made of, without its numbers
structure() {
    "$python" -c '
import json, sys
c = json.load(open(sys.argv[1]))
print(c["baseline"], c["rounds"],
      [(w["name"], w["ok"], w["runs"]) for w in c["contestants"]],
      [(v["contestant"], v["metric"], v["samples"], v["lo"] is None)
       for v in c["verdicts"]])' "$1"
}

why=
for program in munged munge slurmctld slurmd sbatch; do
    have $program || why="no $program here"
done
[ "$(id -u)" = 0 ] || why="slurmd wants to be root"
case $work in
*[!A-Za-z0-9_./+-]*) why="blanks or signs in the name of the scratch folder" ;;
esac
[ ${#work} -lt 90 ] || why="the scratch folder's name is too long for a socket"
if [ -z "$why" ] && ! start_slurm; then
    tail -n 5 slurm/*.out | diag 30
    why="Slurm's daemons do not start here"
fi
if [ -n "$why" ]; then
    skip "a Slurm array" "$why"
else
    "$make" python p.p 3000 >"$out" || exit 99
    check "a plan" plan by-sh -n 10 p.p
    check "one after the other" sh by-sh/jobs.txt
    check "the same plan" plan by-slurm -n 10 p.p
    check "as a Slurm array" in_array by-slurm
    cat slurm/[0-9]*.txt | diag
    is "with an output for each job" "$(find slurm -name '[0-9]*.txt' |
        wc -l)" "$(wc -l <by-slurm/jobs.txt)"
    merged by-sh
    merged by-slurm
    is "the verdict has the same contestants and metrics" \
        "$(structure by-slurm.json)" "$(structure by-sh.json)"
    grep -c '"samples": 10' by-slurm.json >"$out"
    result "of all rounds" $?
fi
stop_slurm

# --- 1,000 jobs ---------------------------------------------------------------

"$make" python p.p 20000 >"$out" || exit 99
check "a plan of 1,000 jobs" plan beside -n 499 p.p
is "is that long" "$(wc -l <beside/jobs.txt)" 1000
check "another one" plan alone -n 499 p.p
check "jobs beside each other" timeout 300 xargs -P 2 -d '\n' -n 1 sh -c \
    <beside/jobs.txt
check "one after the other" timeout 300 sh alone/jobs.txt
merged beside
merged alone
is "the same verdict" "$("$python" - <<'END'
import json
verdicts = [
    {(v["contestant"], v["metric"]): v for v in json.load(open(f))["verdicts"]}
    for f in ("beside.json", "alone.json")]
known = ("peak_rss_bytes", "avg_rss_bytes", "rss_over_live", "minor_faults")
compared = 0
for key, one in verdicts[0].items():
    other = verdicts[1][key]
    words = {one["verdict"], other["verdict"]}
    compared += one["ratio"] is not None
    if key[1] in known and len(words) > 1:
        print(*key, "differs:", one, other)
    if {"faster", "slower"} <= words or {"less", "more"} <= words:
        print(*key, "is contradicted:", one, other)
if compared < 6 or verdicts[0].keys() != verdicts[1].keys():
    print("too few verdicts:", *verdicts)
END
)" ""
like "which is one about memory" alone.json '"verdict": "(smaller|larger)"'

# --- DuckDB -------------------------------------------------------------------

# The statement of doc/compare.md finds a table of a trace and a contestant with
# names that have to be quoted, in which a run failed.
in_duckdb() {
    name='own "one"; two'
    trace='a, "b".p'
    "$make" python "$trace" 200000 >"$out" || exit 99
    check "a plan" "$malloc_trace" compare -q -a glibc -a "$name=$minimal" \
        --plan table -n 12 "$trace"
    check "its jobs" sh table/jobs.txt
    "$python" - table/results/1.0.1.json <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
run["ok"], run["why"] = False, "killed by signal 11"
json.dump(run, open(sys.argv[1], "w"))
END
    check "its table" timeout 100 "$malloc_trace" compare -q --json v.json \
        --csv runs.csv --merge table
    sed -n '/^SELECT/,/;$/p' "$top_srcdir/doc/compare.md" >query.sql
    NODE_PATH=$work/node_modules timeout 100 node "$here/compare/compare_duckdb.js" \
        runs.csv v.json query.sql "$name" "$trace" >tap 2>"$err" ||
        diag <"$err"
    pass_on tap
}
if ! have npm || ! have node; then
    skip "DuckDB" "no npm here"
elif ! timeout 200 npm install --prefix "$work" --no-audit --no-fund \
    --no-update-notifier @duckdb/node-api >npm.out 2>&1; then
    diag <npm.out
    skip "DuckDB" "npm cannot install @duckdb/node-api"
else
    in_duckdb
fi
tap_end
