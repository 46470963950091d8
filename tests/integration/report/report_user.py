# SPDX-License-Identifier: BSD-3-Clause
"""Memory that is asked for by modules of Python, for functions of this file."""
import json

kept = []


class Cache:
    def put(self, text):
        kept.append(json.loads(text))


def load(count):
    cache = Cache()
    for i in range(count):
        cache.put('["%s"]' % ("x" * 5000))


load(20)
kept.append(bytearray(300000))
