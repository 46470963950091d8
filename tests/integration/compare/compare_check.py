# SPDX-License-Identifier: BSD-3-Clause
"""What malloc-trace compare says, found again by other means.

    compare_check.py keys JSON           the keys and types of its JSON
    compare_check.py figures JSON CSV    ratios, intervals and verdicts from the
                                         figures of the runs
    compare_check.py recommendation JSON it follows from the verdicts; not of
                                         comparisons with runs of the program
    compare_check.py table JSON TEXT     the table has the JSON's numbers
    compare_check.py get JSON WHAT...    values: a key, or NAME.key of a
                                         contestant, NAME/METRIC.key of a verdict

Prints "same", or what differs. The interval is made the long way: all Walsh
averages, and the distribution of Wilcoxon's sum as a list of whole numbers, or
the normal one for more than 50 differences.
"""
import csv
import json
import math
import re
import sys
from fractions import Fraction
from statistics import NormalDist

WORDS = {
    "cpu_ns_per_op": ("faster", "slower", 0.01),
    "wall_ns_per_op": ("faster", "slower", 0.01),
    "p999_ns": ("faster", "slower", 1),
    "peak_rss_bytes": ("smaller", "larger", 4096),
    "avg_rss_bytes": ("smaller", "larger", 4096),
    "rss_over_live": ("smaller", "larger", 0.01),
    "peak_waste_bytes": ("less", "more", 4096),
    "after_peak_rss_bytes": ("smaller", "larger", 4096),
    "minor_faults": ("fewer", "more", 1),
    "huge_bytes": ("less", "more", 4096),
}
problems = []


def expect(what, got, want):
    if isinstance(want, float) and isinstance(got, (int, float)):
        if abs(got - want) <= 1e-9 * max(1, abs(want)):
            return
    elif got == want:
        return
    problems.append("%s: %r is said, %r is found" % (what, got, want))


def median(values):
    values = sorted(values)
    n = len(values)
    return (values[(n - 1) // 2] + values[n // 2]) / 2


# --- Keys ---------------------------------------------------------------------

NUMBER = (int, float)


def has(where, document, types):
    for key, kind in types.items():
        if key not in document:
            problems.append("%s has no %s" % (where, key))
        elif not isinstance(document[key], kind) or (
            isinstance(document[key], bool) and kind is not bool
        ):
            problems.append("%s: %s is %r" % (where, key, document[key]))


def keys(comparison):
    none = type(None)
    has("it", comparison, {
        "format": str, "command": str, "baseline": str, "rounds": int,
        "margin": NUMBER, "confidence": NUMBER, "interrupted": bool,
        "words": str, "recommendation": dict, "contestants": list, "traces": list, "verdicts": list,
        "machine": dict, "disturbances": list,
    })
    for who in comparison["contestants"]:
        has(who["name"], who, {
            "name": str, "library": str, "version": str, "environment": list,
            "ok": bool, "why": (str, none), "runs": int,
            "user_ns_per_op": (int, float, none),
            "system_ns_per_op": (int, float, none),
            "differs_by_system_time": bool, "spread_is_system_time": bool,
            "gb_hours": (int, float, none), "own_clock": (str, none),
        })
        expect("why of " + who["name"], who["why"] is None, who["ok"])
        expect("environment", all("=" in e for e in who["environment"]), True)
    for t in comparison["traces"]:
        has(t["name"], t, {
            "name": str, "ops": int, "threads": int, "mode": str, "clock": str,
            "recorded_ns": (int, float, none),
            "malloc_percent": (int, float, none),
        })
    for v in comparison["verdicts"]:
        has("a verdict", v, {
            "contestant": str, "metric": str, "ratio": (int, float, none),
            "lo": (int, float, none), "hi": (int, float, none),
            "verdict": str, "smallest_difference": (int, float, none),
        })
        words = WORDS.get(v["metric"])
        if words is None:
            problems.append("no metric is called " + v["metric"])
        elif v["verdict"] not in words[:2] + ("no worse", "no difference shown"):
            problems.append("%s: verdict %s" % (v["metric"], v["verdict"]))
    said = [(v["contestant"], v["metric"]) for v in comparison["verdicts"]]
    expect("verdicts of one kind", len(set(said)), len(said))
    expect("verdicts of the baseline",
           [s for s in said if s[0] == comparison["baseline"]], [])
    names = [c["name"] for c in comparison["contestants"]]
    expect("the baseline is a contestant", comparison["baseline"] in names,
           True)
    has("the machine", comparison["machine"], {
        "host": str, "processor": str, "cpus": int, "memory_bytes": int,
        "kernel": str, "c_library": str,
    })
    expect("disturbances are text",
           all(isinstance(d, str) for d in comparison["disturbances"]), True)


# --- The recommendation -------------------------------------------------------

none_type = type(None)
GAIN = (dict, none_type)


def felt(found, clocked):
    """The verdict on the memory that the program feels; None: none is known."""
    peak, mean, after = (
        found.get(key) if found.get(key, {}).get("lo") is not None else None
        for key in ("peak_rss_bytes", "avg_rss_bytes", "after_peak_rss_bytes"))
    if not clocked:
        return peak
    chosen = mean or peak
    most = 0.05 * peak["baseline_value"] if peak else 0
    for v in peak, mean, after:
        grows = (v["ratio"] - 1) * v["baseline_value"] if v else 0
        if v and v["lo"] > 1 and grows > most:
            most, chosen = grows, v
    return chosen


def recommendation(comparison):
    """The rule of doc/compare.md, from the verdicts alone."""
    said = comparison["recommendation"]
    has("the recommendation", said, {
        "text": str, "advice": str, "contestant": (str, none_type),
        "runner_up": (str, none_type), "reason": str, "time": GAIN,
        "malloc_time": GAIN, "memory": GAIN, "basis": str,
        "memory_figure": (str, none_type),
    })
    expect("the words' first line", comparison["words"].split("\n")[0],
           said["text"])
    percent = [t["malloc_percent"] for t in comparison["traces"]]
    if None in percent or len(percent) != 1:
        known, share = len(percent) != 1 and None not in percent, 0.1
        if known:
            return
    else:
        known, share = True, percent[0] / 100
    clocked = all(t["clock"] == "recorded" for t in comparison["traces"])
    gains, figure = {}, {}
    for who in comparison["contestants"]:
        if who["name"] == comparison["baseline"] or not who["ok"]:
            continue
        found = {v["metric"]: v for v in comparison["verdicts"]
                 if v["contestant"] == who["name"]}
        time = found.get("cpu_ns_per_op")
        memory = felt(found, clocked)
        if time is None or time["lo"] is None:
            continue
        gain, safe = share * (1 - time["ratio"]), share * (1 - time["hi"])
        if memory is not None:
            gain += (1 - memory["ratio"]) / 5
            safe += (1 - memory["hi"]) / 5
        gains[who["name"]] = (gain, safe)
        figure[who["name"]] = memory and memory["metric"]
    worth = {n: g for n, (g, safe) in gains.items() if safe >= 0.01}
    advice = "take" if worth else "stay" if gains else "none"
    expect("advice", said["advice"], advice)
    expect("basis", said["basis"], "replay")
    if advice == "take":
        best = max(worth, key=worth.get)
        expect("contestant", said["contestant"], best)
        if figure[best]:
            expect("figure of memory", said["memory_figure"], figure[best])
        time = [v for v in comparison["verdicts"] if
                (v["contestant"], v["metric"]) == (best, "cpu_ns_per_op")][0]
        key = "time" if known else "malloc_time"
        scale = share if known else 1
        expect("gain", said[key]["gain"], scale * (1 - time["ratio"]))
        expect("least gain", said[key]["lo"], scale * (1 - time["hi"]))
        expect("the other time", said["malloc_time" if known else "time"], None)
    else:
        expect("contestant", said["contestant"],
               comparison["baseline"] if advice == "stay" else None)


# --- Figures ------------------------------------------------------------------


def rank_sums(n):
    """How many of the 2^n sets of ranks have each sum."""
    ways = [1]
    for rank in range(1, n + 1):
        more = ways + [0] * rank
        for s, w in enumerate(ways):
            more[s + rank] += w
        ways = more
    return ways


# By so much figures differ with no cause.
SLACK = {"peak_rss_bytes": 1 << 17, "avg_rss_bytes": 1 << 17,
         "peak_waste_bytes": 1 << 17, "after_peak_rss_bytes": 1 << 17,
         "minor_faults": 32, "huge_bytes": 2 << 20}


def interval(d, alpha):
    """Middle, low, high, and the least difference; the latter three None."""
    n = len(d)
    walsh = sorted((d[i] + d[j]) / 2 for i in range(n) for j in range(i, n))
    middle = median(walsh)
    noise = -NormalDist().inv_cdf(alpha / 2)
    if n > 50:
        mean = len(walsh) / 2
        deviation = math.sqrt(len(walsh) * (2 * n + 1) / 12)
        k = math.floor(mean - 0.5 - noise * deviation) + 1
    else:
        tail, k = Fraction(0), 0
        for w in rank_sums(n):
            tail += Fraction(w, 2 ** n)
            if tail > alpha / 2:
                break
            k += 1
    if k == 0:
        return middle, None, None, None
    low, high = walsh[k - 1], walsh[len(walsh) - k]
    least = (high - low) / 2 * (noise - NormalDist().inv_cdf(0.05)) / noise
    return middle, low, high, least


def word(metric, low, high, margin):
    if low is None:
        return "no difference shown"
    if low > 1 and high > 1 + margin:
        return WORDS[metric][1]
    if high < 1 and low < 1 - margin:
        return WORDS[metric][0]
    return "no worse" if high <= 1 + margin else "no difference shown"


def differences(figures, who, base, least_n):
    """Of the rounds, means over all traces; or of the traces."""
    traces = sorted({t for w, t, _ in figures if w == who}
                    & {t for w, t, _ in figures if w == base})
    rounds = sorted({r for _, _, r in figures})
    d = {(t, r): math.log(figures[who, t, r]) - math.log(figures[base, t, r])
         for t in traces for r in rounds
         if (who, t, r) in figures and (base, t, r) in figures}
    traces = [t for t in traces if any((t, r) in d for r in rounds)]
    whole = [r for r in rounds if all((t, r) in d for t in traces)]
    by_round = [math.fsum(d[t, r] for t in traces) / len(traces)
                for r in whole] if traces else []
    if len(by_round) < least_n and len(traces) > len(by_round):
        by_trace = [median([d[t, r] for r in rounds if (t, r) in d])
                    for t in traces]
        if len(by_trace) >= least_n or not by_round:
            return by_trace
    return by_round


def figures(comparison, rows):
    base = comparison["baseline"]
    others = [c["name"] for c in comparison["contestants"]
              if c["name"] != base and (c["ok"] or c["failures"] > 0)]
    table = {m: {} for m in WORDS}
    for row in rows:
        for m in WORDS:
            if row["ok"] == "true" and row[m] != "":
                at = row["contestant"], row["trace"], int(row["round"])
                table[m][at] = max(float(row[m]), WORDS[m][2])
    measured = [m for m in WORDS if table[m]]
    for who in comparison["contestants"]:
        expect("runs of " + who["name"], who["runs"],
               sum(r["contestant"] == who["name"] and r["ok"] == "true"
                   for r in rows))
    alpha = ((1 - comparison["confidence"]) / max(1, len(others))
             / max(1, len(measured)))
    least_n = 1
    while 0.5 ** least_n > alpha / 2:
        least_n += 1
    found = set()
    for who in others:
        for m in measured:
            d = differences(table[m], who, base, least_n)
            if not d:
                continue
            said = [v for v in comparison["verdicts"]
                    if (v["contestant"], v["metric"]) == (who, m)]
            found.add((who, m))
            if len(said) != 1:
                problems.append("%d verdicts of %s %s" % (len(said), who, m))
                continue
            said, what = said[0], "%s %s " % (who, m)
            middle, low, high, least = interval(d, alpha)
            slack = 1
            if said["baseline_value"] > WORDS[m][2]:
                slack += SLACK.get(m, 0) / said["baseline_value"]
            if low is not None:
                low, high = math.exp(low) / slack, math.exp(high) * slack
                least = math.exp(least) * slack
            # where the baseline has none of it there is no ratio
            if said["ratio"] is not None:
                expect(what + "ratio", said["ratio"], math.exp(middle))
                expect(what + "lo", said["lo"], low)
                expect(what + "hi", said["hi"], high)
            else:
                expect(what + "baseline", said["baseline_value"] <=
                       WORDS[m][2], True)
            expect(what + "smallest_difference", said["smallest_difference"],
                   None if least is None else least - 1)
            expect(what + "verdict", said["verdict"],
                   word(m, low, high, comparison["margin"]))
            expect(what + "samples", said["samples"], len(d))
    for v in comparison["verdicts"]:
        if (v["contestant"], v["metric"]) not in found:
            problems.append("no figures of %(contestant)s %(metric)s" % v)


# --- The table ----------------------------------------------------------------


def shown(ratio):
    if ratio < 9.995:
        return "%.3f" % ratio
    return "%.1f" % ratio if ratio < 999.5 else "%.0f" % ratio


def table(comparison, text):
    for title, metric in (("processor time an operation", "cpu_ns_per_op"),
                          ("peak resident memory", "peak_rss_bytes")):
        part = re.search("^" + title + ", beside (.*?)(?:, in th[a-z]+ "
                         "recordings?)?\n((?:.+\n)*)", text, re.M)
        if part is None:
            problems.append("no table of " + title)
            continue
        expect("baseline of the table", part[1], comparison["baseline"])
        lines = {}
        for line in part[2].splitlines():
            rank, name, rest = line.split(None, 2)
            lines[name] = (int(rank), rest)
        expect("ranks", sorted(r for r, _ in lines.values()),
               list(range(1, len(lines) + 1)))
        before = None
        for v in sorted((v for v in comparison["verdicts"]
                         if v["metric"] == metric),
                        key=lambda v: lines.get(v["contestant"], (0,))[0]):
            name = v["contestant"]
            if name not in lines:
                problems.append(name + " is not in the table")
                continue
            want = shown(v["ratio"])
            if v["lo"] is not None:
                want += " %s to %s %s" % (shown(v["lo"]), shown(v["hi"]),
                                          v["verdict"])
            got = " ".join(lines[name][1].split())
            if not got.endswith(" " + want):
                problems.append("%s: '%s' is shown, not '%s'"
                                % (name, got, want))
            if metric == "cpu_ns_per_op":
                expect("order", before is None or before <= v["ratio"], True)
                before = v["ratio"]
    expect("the words", comparison["words"] in text, True)


# --- Single values ------------------------------------------------------------


def get(comparison, what):
    name, dot, key = what.rpartition(".")
    if not dot:
        return comparison.get(what)
    contestant, slash, metric = name.rpartition("/")
    if slash:
        found = [v for v in comparison["verdicts"]
                 if (v["contestant"], v["metric"]) == (contestant, metric)]
    else:
        found = [c for c in comparison["contestants"] if c["name"] == name]
    return found[0].get(key) if found else "missing"


def main():
    how, name, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(name, encoding="utf-8") as f:
        comparison = json.load(f)
    if how == "get":
        values = [get(comparison, what) for what in rest]
        print(*(v if isinstance(v, str) else json.dumps(v) for v in values),
              sep="|")
        return
    if how == "keys":
        keys(comparison)
    elif how == "figures":
        with open(rest[0], encoding="utf-8", newline="") as f:
            figures(comparison, list(csv.DictReader(f)))
    elif how == "recommendation":
        recommendation(comparison)
    elif how == "table":
        with open(rest[0], encoding="utf-8") as f:
            table(comparison, f.read())
    else:
        sys.exit("compare_check.py: " + how)
    print("\n".join(problems[:10]) or "same")


main()
