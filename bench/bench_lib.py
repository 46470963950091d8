# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmark scripts share: finding allocators, running a program
under one, interleaving, medians and tables."""
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = {
    "gperftools": "libtcmalloc_minimal.so.4",
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
}
PLACES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
          "/usr/lib64", "/usr/lib", "/usr/local/lib")


class Allocator:
    """SETTINGS: variables of the environment of what runs under it."""

    def __init__(self, name, preload=None, settings=None):
        self.name = name
        self.settings = dict(settings or {})
        if preload:
            self.settings["LD_PRELOAD"] = preload


def name_of(library):
    """What tables call the allocator of a library; "": the C library's."""
    names = {"": "glibc", "libtcmalloc_minimal.so": "tcmalloc-mt"}
    names.update((soname, name) for name, soname in PEERS.items())
    file = os.path.basename(library)
    return names.get(file, file)


def find_peer(soname):
    for place in PLACES:
        path = os.path.join(place, soname)
        if os.path.exists(path):
            return path
    return None


def allocators(build, work, wanted=None, extra=()):
    """Those asked for (all that are there by default), ours first. EXTRA:
    NAME=LIBRARY of further ones."""
    run.build = build
    ours = os.path.join(build, ".libs", "libtcmalloc_minimal.so")
    tracing = os.path.join(build, ".libs", "libtcmalloc_minimal_tracing.so")
    out = os.path.join(work, "trace.lz4")
    all_of_them = [Allocator("ours", ours),
                   Allocator("tracing-off", tracing),
                   Allocator("tracing-on", tracing,
                             {"TCMALLOC_TRACE_OUTPUT": out}),
                   Allocator("glibc")]
    for name, soname in PEERS.items():
        path = find_peer(soname)
        if path:
            all_of_them.append(Allocator(name, path))
    for pair in extra:
        name, _, path = pair.partition("=")
        all_of_them.append(Allocator(name, path))
    chosen = [a for a in all_of_them if not wanted or a.name in wanted]
    for a in chosen:
        path = a.settings.get("LD_PRELOAD")
        if path and not os.path.exists(path):
            sys.exit("%s: %s is not there; build first or leave it out" %
                     (a.name, path))
    return chosen


class Result:
    """One run: operations, wall and CPU ns of the loop as the program says (or
    None), what else it tells; wall, user and system seconds of the process,
    peak and average resident KiB."""

    def __init__(self, words, measured):
        self.ops = self.ns = self.loop_cpu = None
        self.told = {}
        if len(words) >= 3 and all(w.isdigit() for w in words[:3]):
            self.ops, self.ns, self.loop_cpu = map(int, words[:3])
            for w in words[3:]:
                key, _, value = w.partition("=")
                self.told[key] = int(value)
        (wall, user, system, self.rss, self.status,
         self.average) = measured
        self.wall, self.user, self.system = (wall / 1e9, user / 1e9,
                                             system / 1e9)

    @property
    def cpu(self):
        return self.user + self.system


class Failed(SystemExit):
    """A run that did not end well; ends the script unless it is caught."""


class Skipped(Failed):
    """A run that says that it cannot be made here."""


LONGEST_S = 1800


def run(allocator, args, drive=None, after=None, own_malloc=False,
        settings=None):
    """Runs ARGS under ALLOCATOR, through bench_run. DRIVE is called while it
    runs, AFTER with the result. OWN_MALLOC: the program is linked with another
    allocator than the C library's, which then has to be preloaded too."""
    launcher = program(run.build, "bench_run")
    words = dict(allocator.settings)
    if own_malloc and "LD_PRELOAD" not in words:
        words["LD_PRELOAD"] = find_peer("libc.so.6") or ""
    words.update(settings or {})
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as note:
        env = dict(os.environ)
        for k in list(env):
            if k.startswith("TCMALLOC_") or k == "LD_PRELOAD":
                del env[k]
        # Descriptor 3 of the launcher is the note.
        p = subprocess.Popen(["sh", "-c", 'exec "$@" 3>&0 0</dev/null', "sh",
                              launcher] + ["%s=%s" % x for x in words.items()]
                             + args, env=env, stdin=note, stdout=out,
                             start_new_session=True)
        try:
            if drive:
                drive()
            p.wait(LONGEST_S)
        except BaseException:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            raise
        out.seek(0)
        note.seek(0)
        measured = [int(w) for w in note.read().split()]
        status = measured[4] if len(measured) == 6 else p.returncode
        if status == 77:
            raise Skipped("%s: not here" % " ".join(args))
        if p.returncode or len(measured) != 6 or status:
            raise Failed("%s under %s: status %s" % (
                " ".join(args), allocator.name, status))
        result = Result(out.read().decode(errors="replace").split(),
                        measured)
        if after:
            after(result)
        return result


def interleave(chosen, args, rounds, tolerant=False, **how):
    """{name: [Result]}, each round every allocator once, the order turning;
    one more run each before, which does not count. HOW: as of run. TOLERANT: an
    allocator under which it fails is left out of the rest, and of the answer."""
    results = {a.name: [] for a in chosen}
    for r in range(-1, rounds):
        turn = r % len(chosen)
        for a in chosen[turn:] + chosen[:turn]:
            if a.name not in results:
                continue
            try:
                result = run(a, args, **how)
            except Failed as failure:
                if not tolerant or isinstance(failure, Skipped):
                    raise
                print("  %s" % failure, file=sys.stderr)
                del results[a.name]
                continue
            if r >= 0:
                results[a.name].append(result)
    return results


def median(values):
    return statistics.median(values)


def ratio(these, those):
    """Median of the ratios within each round, and the half-width of the
    middle half of them."""
    r = sorted(a / b for a, b in zip(these, those))
    n = len(r)
    return median(r), (r[(3 * n - 1) // 4] - r[n // 4]) / 2


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else float("nan")


def table(head, rows, out=sys.stdout):
    text = [[str(c) for c in row] for row in [head] + rows]
    width = [max(len(row[i]) for row in text) for i in range(len(head))]
    for n, row in enumerate(text):
        out.write("| " + " | ".join(
            c.ljust(w) if i == 0 else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, width))) + " |\n")
        if n == 0:
            out.write("|" + "|".join(
                "-" * (w + 2) if i == 0 else "-" * (w + 1) + ":"
                for i, w in enumerate(width)) + "|\n")


def machine():
    name = "unknown processor"
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith(("model name", "CPU part")):
                    name = line.split(":", 1)[1].strip()
                    break
    except OSError:
        pass
    cpus = os.cpu_count()
    return "%s, %d CPU%s, Linux %s" % (name, cpus, "s" * (cpus != 1),
                                       os.uname().release)


def program(build, name):
    path = os.path.join(build, "bench", name)
    if not os.path.exists(path):
        sys.exit("%s is not there; run make %s in the build folder" %
                 (path, os.path.join("bench", name)))
    return path


def read_counters(path):
    """{name: value} of what bench_counters.so wrote."""
    try:
        with open(path) as f:
            text = f.read()
    except OSError:
        return {}
    found = re.findall(r'<counter name="tcmalloc\.(\w+)" value="(\d+)"', text)
    found += re.findall(r"^tcmalloc\.(\w+) (\d+)$", text, re.MULTILINE)
    return {name: int(value) for name, value in found}


BINARIES = ("bench_loops", "bench_work", "bench_large", "bench_threads")


def workloads(path):
    """[(name, what it does)] of a program."""
    text = subprocess.run([path, "--list"], stdout=subprocess.PIPE,
                          check=True).stdout.decode()
    return [tuple(line.split("\t")) for line in text.splitlines()]


def all_workloads(build):
    """{name: (program, what it does)} in the order of the lists."""
    found = {}
    for binary in BINARIES:
        path = program(build, binary)
        for name, what in workloads(path):
            found[name] = (path, what)
    return found


class WorkFolder:
    def __init__(self, parent=None):
        self.path = tempfile.mkdtemp(prefix="tcm-bench.", dir=parent)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
