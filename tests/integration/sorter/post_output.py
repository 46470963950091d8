#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Progress of postprocess on a terminal, and its early end by a signal.

  post_output.py POSTPROCESS RAW WANT

RAW is a plain raw trace and WANT what postprocess makes of it. One line of TAP
a check.
"""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

from procdump import Processed
from tap import done, ok

post, raw, want = sys.argv[1:4]
# Where tests run in the background of a shell it is ignored, for children too.
signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_terminal(args, **more):
    """Exit status, and the output on the terminal that is stderr."""
    master, slave = pty.openpty()
    p = subprocess.Popen(args, stderr=slave, **more)
    os.close(slave)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(master)
    return p.wait(), text


def progress():
    status, text = on_terminal([post, raw, "/dev/null"])
    ok(status == 0 and b"\r" in text and b" events, " in text and
       b" M/s" in text, "progress on a terminal: events and their rate",
       text)
    ok(b" %, " in text and b" left" in text,
       "progress on a terminal: percent and time left", text)
    ok(text.rstrip(b"\r\n").count(b"bytes ") >= 1 and
       b"live at the end" in text.split(b"\r")[-1] + text,
       "the summary follows", text)
    status, text = on_terminal([post, "--quiet", raw, "/dev/null"])
    ok(status == 0 and text == b"", "--quiet: silent", text)
    p = subprocess.run([post, raw, "/dev/null"], stderr=subprocess.PIPE)
    ok(b"\r" not in p.stderr and b"M/s" not in p.stderr,
       "no progress where stderr is no terminal", p.stderr)
    # A pipe has no known end.
    with open(raw, "rb") as f:
        data = f.read()
    p = subprocess.Popen(["cat", raw], stdout=subprocess.PIPE)
    status, text = on_terminal([post, "-", "/dev/null"], stdin=p.stdout)
    p.wait()
    ok(status == 0 and b"M/s" in text and b" left" not in text,
       "from a pipe: no percent", text)
    return data


def ops(path):
    return list(Processed(path).ops())


def begin(data):
    """A run that most of the trace came to, then nothing, and its output. What
    it wrote says that it is well under way: in a file that has no name of use
    yet."""
    folder = tempfile.mkdtemp(dir=".")
    out = os.path.join(folder, "out.p")
    p = subprocess.Popen([post, "-", out], stdin=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    p.stdin.write(data[: len(data) * 3 // 4])
    p.stdin.flush()
    end = time.monotonic() + 20
    while time.monotonic() < end and not any(
            f.stat().st_size > 200000 for f in os.scandir(folder)):
        time.sleep(0.01)
    return p, out


def stop(signum, data, name):
    p, out = begin(data)
    ok(not os.path.exists(out), name + ": the output is not there before")
    p.send_signal(signum)
    err = p.stderr.read()
    status = p.wait()
    ok(status == 3, name + ": exit status 3", status)
    ok(b"interrupted" in err, name + ": says so", err)
    ok(os.listdir(os.path.dirname(out)) == ["out.p"],
       name + ": leaves the output and nothing else",
       os.listdir(os.path.dirname(out)))
    try:
        got, full = ops(out), ops(want)
        ok(1000 < len(got) < len(full), name + ": shorter, not empty",
           "%d of %d" % (len(got), len(full)))
        ok(got == full[: len(got)],
           name + ": the beginning of the whole output")
        closing = Processed(out)
        list(closing.ops())
        ok(closing.closing is not None and closing.closing[20] == 0,
           name + ": ends with a closing block that says incomplete",
           closing.closing)
    except Exception as e:
        ok(False, name + ": a valid trace", repr(e))


def stop_twice():
    """The output is a pipe that nobody reads: the first signal takes effect
    later."""
    r, w = os.pipe()
    p = subprocess.Popen([post, raw, "-"], stdout=w,
                         stderr=subprocess.DEVNULL)
    os.close(w)
    select.select([r], [], [], 60)
    end = time.monotonic() + 20
    while p.poll() is None and time.monotonic() < end:
        p.send_signal(signal.SIGINT)
        time.sleep(0.05)
    ok(p.wait() == -signal.SIGINT, "a second SIGINT kills", p.returncode)
    os.close(r)


def stop_at_once(data):
    """Two signals before the output has its name: no file is left."""
    p, out = begin(data)
    for signum in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM,
                   signal.SIGCONT):
        p.send_signal(signum)
    p.stderr.read()
    ok(p.wait() in (-signal.SIGINT, -signal.SIGTERM),
       "two signals at once kill", p.returncode)
    ok(os.listdir(os.path.dirname(out)) == [],
       "and leave nothing", os.listdir(os.path.dirname(out)))


def ignored():
    """A signal that is ignored, as under nohup, stays ignored."""
    p = subprocess.Popen([post, "--quiet", "-", "/dev/null"],
                         stdin=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                          signal.SIG_IGN))
    with open(raw, "rb") as f:
        data = f.read()
    p.stdin.write(data[:-1000])
    p.stdin.flush()
    p.send_signal(signal.SIGINT)
    p.stdin.write(data[-1000:])
    p.stdin.close()
    ok(p.wait() == 0, "an ignored SIGINT stays ignored", p.returncode)


whole = progress()
stop(signal.SIGINT, whole, "SIGINT")
stop(signal.SIGTERM, whole, "SIGTERM")
stop_twice()
stop_at_once(whole)
ignored()
done()
