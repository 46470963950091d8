# SPDX-License-Identifier: BSD-3-Clause
"""Control of the recording of this process's memory requests, by
libtcmalloc_minimal_tracing, with ctypes. In a process that does not run with
that library all functions return False (file: None) and do nothing.

    import malloc_trace
    malloc_trace.start("t.lz4")
    malloc_trace.mark("requests begin")
    ...
    malloc_trace.stop()

With TCMALLOC_TRACE_SITES=lang the lines that allocate are recorded; objects of
up to 512 bytes come from malloc only with PYTHONMALLOC=malloc.
"""
import ctypes
import os

_process = ctypes.CDLL(None)


def _call(name, *arguments, gives=ctypes.c_bool):
    try:
        function = _process[name]
    except AttributeError:
        return False
    function.restype = gives
    return bool(function(*arguments))


def start(path=None):
    """Begins a recording to PATH (None: the output that TCMALLOC_TRACE_OUTPUT
    named at the start). False: one is on already, or it cannot begin."""
    name = None if path is None else ctypes.c_char_p(os.fsencode(path))
    return _call("malloc_trace_start", name)


def stop():
    """Ends the recording; the trace is whole then. False: there was none, or its
    end could not be written."""
    return _call("malloc_trace_stop")


def flush():
    """True: all events so far are in the file."""
    return _call("malloc_trace_flush")


def is_on():
    return _call("malloc_trace_is_on")


def file():
    """The absolute name of the file that this process records to, or recorded to
    last; all events so far are in it. None: this process is not recorded, or its
    output is not a file."""
    path = ctypes.create_string_buffer(4096)
    size = ctypes.c_size_t(len(path))
    return os.fsdecode(path.value) if _call("malloc_trace_file", path, size) \
        else None


def mark(text):
    """Puts TEXT and the time into the trace, at most 127 bytes."""
    name = text if isinstance(text, bytes) else text.encode()
    _call("malloc_trace_mark", ctypes.c_char_p(name), gives=None)
