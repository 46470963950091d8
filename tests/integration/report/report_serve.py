# SPDX-License-Identifier: BSD-3-Clause
"""report_serve.py ADDRESS: odd clients of the live page: requests that are cut,
too long, doubled or none, and more connections than there are places. Prints
TAP."""
import socket
import sys
import time
import urllib.parse

import tap

ADDRESS = urllib.parse.urlsplit(sys.argv[1])
PORT = ADDRESS.port
FOLDER = ADDRESS.path.encode()
HOST = b"Host: localhost:%d\r\n" % PORT


def talk(*parts, wait=True):
    """What comes back, up to the end of the connection or of patience."""
    s = socket.create_connection(("127.0.0.1", PORT), timeout=10)
    try:
        for part in parts:
            s.sendall(part)
        s.shutdown(socket.SHUT_WR)
        got = b""
        while wait and len(got) < 1 << 24:
            more = s.recv(65536)
            if not more:
                break
            got += more
        return got
    except OSError:
        return b""
    finally:
        s.close()


def status(answer):
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.") else None


GET = b"GET %s HTTP/1.1\r\n" % FOLDER


def is_there():
    return status(talk(GET + HOST +
                       b"Connection: close\r\n\r\n")) == 200


tap.ok(is_there(), "a page")
tap.ok(status(talk(b"GET %s HTTP/1.0\r\n\r\n" % FOLDER)) == 421, "none without a host")
for what, host in (("a name", b"evil.example"), ("another port", b"localhost:1"),
                   ("a name that begins as ours", b"localhost.evil.example"),
                   ("one that begins as an address", b"127.0.0.1.evil.example"),
                   ("none", b"")):
    got = status(talk(GET + b"Host: " + host + b"\r\nConnection: close\r\n\r\n"))
    tap.ok(got in (400, 421), "nor for " + what, got)
for what, request in (
        ("a head that is too long", GET + HOST + b"X: " + b"y" * 100000 +
         b"\r\n\r\n"),
        ("a path that is too long", b"GET " + FOLDER + b"y" * 100000 + b" HTTP/1.1\r\n" +
         HOST + b"\r\n"),
        ("another path", b"GET " + FOLDER + b"../../etc/passwd HTTP/1.1\r\n" + HOST +
         b"Connection: close\r\n\r\n"),
        ("a path with a null byte", b"GET " + FOLDER + b"%00 HTTP/1.1\r\n" + HOST +
         b"Connection: close\r\n\r\n"),
        ("no HTTP", b"\0\1\2\3\r\n\r\n"),
        ("a body", b"POST %s HTTP/1.1\r\n" % FOLDER + HOST +
         b"Content-Length: 100000\r\n\r\n" + b"x" * 1000),
        ("a body in chunks", GET + HOST +
         b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")):
    got = status(talk(request))
    tap.ok(got is None or 400 <= got < 500, "no page for " + what, got)
tap.ok(is_there(), "the page is still there")
tap.ok(not talk(GET), "half a request gets nothing")
idle = []
for what, begin in (("silent", b""), ("half a request", GET + HOST),
                    ("asking for what there is not",
                     b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")):
    for _ in range(100):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", PORT))
        try:
            s.sendall(begin)
        except OSError:
            pass
        idle.append(s)
    time.sleep(0.3)
    tap.ok(is_there(), "a hundred that stay keep it from nobody: " + what)
for s in idle:
    s.close()
tap.ok(is_there(), "nor when they have gone")
answer = talk(GET + HOST + b"Connection: close\r\nOrigin: http://evil.example\r\n"
              b"\r\n").split(b"\r\n\r\n")[0].lower()
tap.ok(b"access-control-" not in answer, "other sites may not read it")
tap.ok(b"default-src 'none'" in answer and b"script-src 'self'" in answer,
       "its script is its own")
tap.done()
