# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests of CPython's own, and writes what came of each.

python_tests.py OUT NAME...
    NAME: as unittest takes it; or processes[.NAME] for those of multiprocessing
    by fork; or futures, which are here, as many a Python comes without them

OUT has a line for each test, sorted. Ends with 77 where there is no such test.
"""
import sys
import unittest


def try_futures():
    """What pools of threads and processes give, many of them, one by one."""
    import concurrent.futures as futures

    class Futures(unittest.TestCase):
        def test_threads(self):
            for n in range(20):
                with futures.ThreadPoolExecutor(14) as pool:
                    got = pool.map(deep, range(n, n + 56))
                    self.assertEqual(list(got), list(range(n, n + 56)))

        def test_processes(self):
            for n in range(4):
                with futures.ProcessPoolExecutor(3) as pool:
                    got = pool.map(deep, range(n, n + 20))
                    self.assertEqual(list(got), list(range(n, n + 20)))

        def test_errors(self):
            with futures.ThreadPoolExecutor(3) as pool:
                wrong = [pool.submit(deep, "x") for _ in range(50)]
                for one in futures.as_completed(wrong):
                    self.assertIsInstance(one.exception(), TypeError)

    return unittest.defaultTestLoader.loadTestsFromTestCase(Futures)


def deep(value, depth=20):
    """VALUE, from deep calls, of C functions and through them, that allocate at
    the bottom and on the way back."""
    if depth == 0:
        nested = []
        for n in range(40):
            nested = [nested, "x" * 600, n]
        return value if repr(nested) else None
    (result,) = map(deep, [value + 0], [depth - 1])
    return result if bytearray(700 + depth) else None


def try_processes(name):
    import test._test_multiprocessing as processes

    here = globals()
    processes.install_tests_in_module_dict(here, "fork")
    loader = unittest.defaultTestLoader
    if name:
        return loader.loadTestsFromName(name, sys.modules["__main__"])
    return loader.loadTestsFromModule(sys.modules["__main__"])


class Result(unittest.TextTestResult):
    """What came of each test."""

    lines = []

    def put(self, test, what):
        self.lines.append("%s %s" % (what, test.id()))

    def addSuccess(self, test):
        super().addSuccess(test)
        self.put(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.put(test, "skipped")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.put(test, "failed")

    def addError(self, test, err):
        super().addError(test, err)
        self.put(test, "error")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.put(test, "expected")


def load(name):
    first, _, rest = name.partition(".")
    if first == "futures":
        return try_futures()
    if first == "processes":
        return try_processes(rest)
    return unittest.defaultTestLoader.loadTestsFromName(name)


def main():
    try:
        import test.support

        suite = unittest.TestSuite(load(name) for name in sys.argv[2:])
    except (ImportError, AttributeError) as error:
        print(error)
        return 77
    if unittest.defaultTestLoader.errors:
        print(unittest.defaultTestLoader.errors[0].strip().split("\n")[-1])
        return 77
    out = sys.argv[1]
    del sys.argv[1:]
    unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)
    with open(out, "w") as f:
        f.writelines(line + "\n" for line in sorted(Result.lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
