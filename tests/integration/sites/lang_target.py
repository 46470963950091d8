# SPDX-License-Identifier: BSD-3-Clause
"""What lang.sh records: lines that say what they allocate (lang.py), and code
made at run time, which is printed."""
import asyncio
import gc
import sys
import threading


def plain(n):
    return bytes(n)  #= 40 70033 plain 20 17 25


class Box:
    def fill(self):
        for _ in range(10):
            self.one()

    def one(self):
        return plain(70000)


def boxes():
    for _ in range(4):
        Box().fill()


def generated(n):
    for _ in range(n):
        yield bytes(71000)  #= 30 71033 generated


def generators():
    one, two = generated(15), generated(15)
    for _ in zip(one, two):
        pass


def thrower(depth):
    if depth == 0:
        bytes(72000)  #= 500 72033 thrower 44 44 44
        raise ValueError
    try:
        thrower(depth - 1)
    finally:
        bytes(73000)  #= 1500 73033 thrower


def exceptions():
    for _ in range(500):
        try:
            thrower(3)
        except ValueError:
            bytes(74000)  #= 500 74033 exceptions


def evaluated():
    # Code at the addresses of code that is gone: other lines, other files.
    for i in range(300):
        text = "\n" * (i % 7) + "bytes(%d)" % (200000 + i)
        name = "made_%d.py" % (i % 10)
        exec(compile(text, name, "exec"), {})
        print("made", name, 1 + i % 7, "<module>", 200033 + i)
        name = "f%d" % (i % 3)
        space = {}
        exec("def %s():\n%s return bytes(%d)\n" %
             (name, "\n" * (i % 5), 300000 + i), space)
        space[name]()
        print("made <string>", 2 + i % 5, name, 300033 + i)


def deep(n):
    if n == 0:
        return bytes(75000)  #= 1 75033 deep 75 75 75
    return deep(n - 1)


class Late:
    def __del__(self):
        bytes(76000)  #= 101 76033 Late.__del__


def late():
    for _ in range(100):
        x = Late()
        x.self = x
        del x
    gc.collect()


async def awaited(n):
    for _ in range(n):
        await asyncio.sleep(0)
        bytes(77000)  #= 60 77033 awaited


async def tasks():
    await asyncio.gather(*[awaited(20) for _ in range(3)])


def in_thread():
    for _ in range(1000):
        bytes(78000)  #= 8000 78033 in_thread


class Made:
    def __init__(self, n):
        self.block = bytes(n)  #= 2000 79033 Made.__init__ 113


def made():
    for _ in range(2000):
        Made(79000)


def naïve(n):
    return bytes(n)  #= 10 80033 naïve 122


def names():
    for _ in range(10):
        naïve(80000)


def threads():
    all_of_them = [threading.Thread(target=in_thread) for _ in range(8)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()


boxes()
generators()
exceptions()
evaluated()
deep(200)
late()
asyncio.run(tasks())
made()
names()
threads()
at_end = Late()
print("done", len(sys.argv))
sys.exit(7)
