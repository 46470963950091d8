# SPDX-License-Identifier: BSD-3-Clause
"""What can be run under an allocator: the workloads of the bench programs, real
programs, and replays of traces recorded from these."""
import json
import os
import shutil
import subprocess
import sys
import time

import bench_lib as lib


class Job:
    """ARGS: the command. TIME(result): what is compared; UNIT: its name; FACTOR:
    what it is divided by to be printed. HOW: further arguments of lib.run."""

    def __init__(self, name, args, unit, time_of, factor=1, **how):
        self.name, self.args, self.unit = name, args, unit
        self.time, self.factor, self.how = time_of, factor, how


def loops(build, scale, cpu, wanted):
    for name, (path, _) in lib.all_workloads(build).items():
        if not wanted(name):
            continue
        if cpu:
            yield Job(name, [path, name, str(scale)], "cpu ns/op",
                      lambda r: r.loop_cpu / r.ops)
        else:
            yield Job(name, [path, name, str(scale)], "ns/op",
                      lambda r: r.ns / r.ops)


# --- Real programs -----------------------------------------------------------

PROGRAMS = {
    "python": "json.dumps and json.loads of 20,000 dicts, every object by malloc",
    "perl": "words split, counted, sorted and joined",
    "ruby": "words split, counted, grouped, sorted and joined",
    "sqlite": "tables in memory: inserts, an index, joins, groups, texts",
    "gcc": "the C compiler proper, -O1, on a generated file",
    "redis": "redis-server under redis-benchmark, the server's CPU time",
}
SMALL = {"small": "/bin/true, wall time of the whole process"}


def times(scale, whole):
    return max(1, round(scale * whole))


def python_job(_work, scale):
    os.environ["PYTHONMALLOC"] = "malloc"
    return [os.path.realpath(sys.executable), "-S",
            os.path.join(lib.HERE, "python_json.py"),
            str(times(scale, 12))], {}


def perl_job(_work, scale):
    perl = shutil.which("perl")
    return perl and [perl, os.path.join(lib.HERE, "perl_text.pl"),
                     str(times(scale, 8))], {}


def ruby_job(_work, scale):
    ruby = shutil.which("ruby")
    return ruby and [ruby, "--disable-gems",
                     os.path.join(lib.HERE, "ruby_text.rb"),
                     str(times(scale, 16))], {}


SQL_SETUP = """
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, town INTEGER, note TEXT);
CREATE TABLE town(id INTEGER PRIMARY KEY, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
  INSERT INTO town SELECT i, 'town ' || i FROM n;
"""
SQL_ROUND = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
  INSERT INTO person(name, town, note) SELECT 'name ' || (i * 7919 %% 10007),
    1 + i * 31 %% 500, substr('%s', 1, i %% 200) FROM n;
CREATE INDEX by_name ON person(name);
SELECT sum(length(x)) FROM (SELECT group_concat(p.name || t.name, ',') AS x
  FROM person p JOIN town t ON t.id = p.town GROUP BY t.name);
SELECT count(*) FROM (SELECT name, count(*) AS c FROM person GROUP BY name
  HAVING c > 1 ORDER BY c, name);
UPDATE person SET note = note || upper(name) WHERE town %% 3 = 0;
DROP INDEX by_name;
DELETE FROM person WHERE id %% 2 = %d;
"""


def sqlite_job(work, scale):
    sqlite = shutil.which("sqlite3")
    script = os.path.join(work, "bench.sql")
    with open(script, "w") as f:
        f.write(SQL_SETUP)
        for i in range(times(scale, 5)):
            f.write(SQL_ROUND % ("lorem ipsum dolor sit amet " * 8, i % 2))
            # Single statements, each compiled anew.
            for k in range(1500):
                f.write("SELECT name, note FROM person WHERE id = %d AND "
                        "town <> %d;\n" % (k * 13 % 20000, k % 500))
    return sqlite and [sqlite, "-init", "/dev/null", ":memory:",
                       '.read "%s"' % script], {}


C_FUNCTION = """
static int helper_%(i)d(struct item *t, int n) {
    int sum = %(i)d;
    for (int k = 0; k < n; k++) {
        switch ((t[k].kind + k) %% 7) {
        case 0: sum += t[k].a[k & 3] * %(m)d; break;
        case 1: sum ^= t[k].b << (k & 7); break;
        case 2: t[k].b = sum; break;
        case 3: if (t[k].next) sum += t[k].next->b; break;
        default: sum -= (int)(t[k].c * %(m)d.5); break;
        }
        for (int j = 0; j < 4; j++)
            t[k].a[j] = t[k].a[3 - j] + sum %% (j + %(m)d);
    }
    return sum;
}
int function_%(i)d(struct item *t, int n) {
    int x = helper_%(i)d(t, n) + (n > %(m)d ? function_%(before)d(t, n - 1) : 0);
    return x > 100 ? x / %(m)d : x * x + t->b;
}
"""


def gcc_job(work, scale):
    gcc = shutil.which("gcc")
    compiler = gcc and subprocess.run(
        [gcc, "-print-prog-name=cc1"], stdout=subprocess.PIPE,
        check=True).stdout.decode().strip()
    if not compiler or not os.path.exists(compiler):
        return None, {}
    source = os.path.join(work, "bench_generated.c")
    with open(source, "w") as f:
        f.write("struct item { int kind, a[4], b; double c; struct item *next;"
                " };\nint function_0(struct item *t, int n) "
                "{ return t->b + n; }\n")
        for i in range(1, times(scale, 250) + 1):
            f.write(C_FUNCTION % {"i": i, "before": i - 1, "m": 2 + i % 11})
    return [compiler, "-quiet", "-O1", source, "-o", "/dev/null"], {}


def redis_job(work, scale):
    if not all(shutil.which(x) for x in ("redis-server", "redis-cli",
                                         "redis-benchmark")):
        return None, {}
    socket = os.path.join(work, "redis")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
             "env": {k: v for k, v in os.environ.items()
                     if k != "LD_PRELOAD"}}

    def drive():
        for _ in range(200):
            if subprocess.run(["redis-cli", "-s", socket, "ping"],
                              check=False, **quiet).returncode == 0:
                break
            time.sleep(0.02)
        subprocess.run(["redis-benchmark", "-s", socket, "-q", "-P", "16",
                        "-n", str(times(scale, 40000)), "-d", "300", "-r",
                        "50000", "-t", "set,get,lpush,lpop,sadd,hset,zadd"],
                       check=False, timeout=300, **quiet)
        subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"],
                       check=False, **quiet)
    return [shutil.which("redis-server"), "--port", "0", "--unixsocket",
            socket, "--save", "", "--appendonly", "no", "--dir", work], {
                "drive": drive, "own_malloc": True}


def program(name, work, scale):
    """A Job or, where the program is not installed, None."""
    args, how = globals()[name + "_job"](work, scale)
    return args and Job(name, args, "cpu ms", lambda r: r.cpu * 1e9, 1e6,
                        **how)


# --- Replays -----------------------------------------------------------------

def replay(build, work, recorded, cpu):
    """Records the program of the Job RECORDED once; what the replay says about
    itself takes the place of what is seen from outside."""
    tools = os.path.join(build, "malloc-trace-replay")
    recorder = lib.allocators(build, work, {"tracing-on"})[0]
    raw = recorder.settings["TCMALLOC_TRACE_OUTPUT"]
    trace = os.path.join(work, recorded.name + ".p")
    lib.run(recorder, recorded.args, **recorded.how)
    p = subprocess.run([os.path.join(tools, "postprocess"), "--quiet", raw,
                        trace], check=False)
    os.unlink(raw)
    if p.returncode:
        raise lib.Failed("postprocess of %s: status %d" % (recorded.name,
                                                           p.returncode))
    out = os.path.join(work, "replay.json")

    def after(result):
        with open(out) as f:
            d = json.load(f)
        result.ops, result.ns, result.loop_cpu = (d["ops"], d["wall_ns"],
                                                  d["cpu_ns"])
        result.rss = d["peak_rss_bytes"] // 1024
        # The replayer's tables are not the allocator's.
        result.average = max(0, result.average -
                             d["replayer_rss_bytes"] // 1024)
    return Job("replay-" + recorded.name,
               [os.path.join(tools, "replay"), "--threads=none", "--json",
                out, trace],
               "cpu ns/op" if cpu else "ns/op",
               (lambda r: r.loop_cpu / r.ops) if cpu else
               (lambda r: r.ns / r.ops), after=after)


# --- All of them -------------------------------------------------------------

def listing(build):
    """[(name, what)] of everything."""
    return ([(n, what) for n, (_, what) in lib.all_workloads(build).items()] +
            list(PROGRAMS.items()) + list(SMALL.items()) +
            [("replay-" + n, "replay of a trace of %s" % n)
             for n in PROGRAMS])


def all_jobs(build, work, scale, cpu, wanted):
    """Jobs one after the other, made when their turn comes. WANTED: function
    from name to bool."""
    yield from loops(build, scale, cpu, wanted)
    for name in PROGRAMS:
        if not wanted(name) and not wanted("replay-" + name):
            continue
        job = program(name, work, scale)
        if job is None:
            print("  %s: not installed, left out" % name, file=sys.stderr)
            continue
        if wanted(name):
            yield job
        if wanted("replay-" + name):
            yield replay(build, work, job, cpu)
    if wanted("small"):
        yield Job("small", ["/bin/true"], "wall ms", lambda r: r.wall * 1e9,
                  1e6)
