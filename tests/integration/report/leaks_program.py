# SPDX-License-Identifier: BSD-3-Clause
"""A list that grows, a cache that is full soon, and work that leaves nothing."""
sessions = []
cache = {}


class Session:
    def __init__(self, number):
        self.name = "session %d" % number


def remember(number):
    sessions.append(Session(number))


def look_up(number):
    if number % 50 not in cache:
        cache[number % 50] = ("entry %d" % number) * 20
    return cache[number % 50]


def compute():
    return sum(len(str(n)) for n in range(30))


for number in range(8000):
    remember(number)
    look_up(number)
    compute()
print("done", len(sessions), len(cache))
