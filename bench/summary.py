# SPDX-License-Identifier: BSD-3-Clause
"""What a whole comparison comes to: geometric means, the worst row, and the
rows in which another allocator is clearly ahead."""
import bench_lib as lib

MEASURES = ("time", "peak RSS", "average RSS")


class Comparison:
    """Medians and ratios of all rows. A ratio is what the other allocator takes
    divided by what the first one takes: above 1, the first one is ahead."""

    def __init__(self, names):
        self.names = names
        self.rows = {m: [] for m in MEASURES}  # [(workload, unit, cells)]

    def add(self, measure, workload, unit, values):
        """VALUES: {allocator: [one a round]}. A cell is (median, ratio, spread);
        the last two None where there is nothing to divide by."""
        base = values.get(self.names[0])
        cells = {}
        for name in self.names:
            these = values.get(name)
            if not these:
                continue
            times = spread = None
            if base and min(base) > 0 and min(these) > 0:
                times, spread = lib.ratio(these, base)
            cells[name] = (lib.median(these), times, spread)
        self.rows[measure].append((workload, unit, cells))
        return cells

    def ratios(self, measure, name):
        return [cells[name][1] for _, _, cells in self.rows[measure]
                if name in cells and cells[name][1] is not None]

    def against_best(self, measure, peers):
        """[(what the first takes / what the best peer takes, workload, peer)],
        worst first."""
        found = []
        for workload, _, cells in self.rows[measure]:
            others = [(cells[n][1], n) for n in peers
                      if n in cells and cells[n][1]]
            if others:
                best, who = min(others)
                found.append((1 / best, workload, who))
        return sorted(found, reverse=True)


def cell_text(cell, digits, first):
    if cell is None:
        return "-"
    middle, times, spread = cell
    text = "%.*f" % (digits, middle)
    return text if first or times is None else "%s (%.2f+-%.2f)" % (
        text, times, spread)


def print_table(c, measure):
    rows = []
    for workload, unit, cells in c.rows[measure]:
        digits = 2 if measure == "time" else 0
        rows.append([("%s (%s)" % (workload, unit))
                     if measure == "time" else workload] +
                    [cell_text(cells.get(n), digits, n == c.names[0])
                     for n in c.names])
    rows.append(["geometric mean of ratios"] +
                ["%.3f" % lib.geometric_mean(c.ratios(measure, n))
                 for n in c.names])
    lib.table(["workload"] + c.names, rows)


def print_live(told, names):
    """TOLD: {workload: {allocator: (peak KiB, notes)}}, of those that know how
    many of their bytes are alive."""
    rows = []
    for workload, of in told.items():
        live = next(iter(of.values()))[1]
        row = [workload] + ["%d" % live[key] if key in live else "-"
                            for key in ("live_peak_kib", "live_steady_kib")]
        for n in names:
            if n not in of:
                row.append("-")
                continue
            peak, notes = of[n]
            text = "%.2f" % (peak / max(1, notes["live_peak_kib"]))
            if notes.get("live_steady_kib"):
                text += " / %.2f" % (notes["resident_steady_kib"] /
                                     notes["live_steady_kib"])
            row.append(text)
        rows.append(row)
    lib.table(["workload", "peak live KiB", "steady live KiB"] + list(names),
              rows)


def print_summary(c, behind=1.05):
    peers = [n for n in c.names[1:] if n == "glibc" or n in lib.PEERS]
    if not peers:
        return
    first = c.names[0]
    print("\nSummary: geometric means of what a peer takes / what %s takes\n" %
          first)
    lib.table([""] + peers, [[m] + ["%.3f" % lib.geometric_mean(
        c.ratios(m, n)) for n in peers] for m in MEASURES])
    for m in MEASURES:
        rows = c.against_best(m, peers)
        if not rows:
            continue
        worst = rows[0]
        print("\n%s: worst row against the best peer: %s, %.2f of %s" %
              (m, worst[1], worst[0], worst[2]))
        late = [r for r in rows if r[0] > behind]
        print("%s: rows more than %.0f %% behind the best peer: %d of %d" %
              (m, (behind - 1) * 100, len(late), len(rows)))
        for factor, workload, who in late:
            print("    %-24s %6.2f of %s" % (workload, factor, who))


def write_csv(c, out):
    """OUT: a csv writer."""
    out.writerow("measure workload unit allocator median ratio spread".split())
    for m in MEASURES:
        for workload, unit, cells in c.rows[m]:
            for name, (middle, times, spread) in cells.items():
                out.writerow([m, workload, unit, name, middle] +
                             (["", ""] if times is None else
                              [times, spread]))
