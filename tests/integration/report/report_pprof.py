# SPDX-License-Identifier: BSD-3-Clause
"""report_pprof.py FILE: a profile of pprof: the sums of its four values, then
"objects function" of each sample, sorted."""
import sys

from rawdump import Bad


def varint(b, p):
    v = shift = 0
    while True:
        v |= (b[p] & 127) << shift
        shift += 7
        p += 1
        if b[p - 1] < 128:
            return v, p


def fields(b):
    p = 0
    while p < len(b):
        key, p = varint(b, p)
        if key & 7 == 0:
            v, p = varint(b, p)
        elif key & 7 == 2:
            n, p = varint(b, p)
            v, p = b[p : p + n], p + n
            if len(v) != n:
                raise Bad("cut")
        else:
            raise Bad("wire type %d" % (key & 7))
        yield key >> 3, v


def numbers(b):
    p, out = 0, []
    while p < len(b):
        v, p = varint(b, p)
        out.append(v)
    return out


def main(name):
    with open(name, "rb") as f:
        profile = list(fields(f.read()))
    texts = [v.decode() for k, v in profile if k == 6]
    functions = {}
    for k, v in profile:
        if k == 5:
            d = dict(fields(v))
            functions[d[1]] = texts[d[2]]
    locations = {}
    for k, v in profile:
        if k == 4:
            d = dict(fields(v))
            locations[d[1]] = functions[dict(fields(d[4]))[1]]
    sums, rows = [0] * 4, []
    for k, v in profile:
        if k == 2:
            d = dict(fields(v))
            values = numbers(d[2])
            sums = [a + b for a, b in zip(sums, values)]
            rows.append((values[0], locations[numbers(d[1])[0]]))
    types = [texts[dict(fields(v))[1]] for k, v in profile if k == 1]
    print(*types)
    print(*sums)
    for row in sorted(rows):
        print(*row)


if __name__ == "__main__":
    main(sys.argv[1])
