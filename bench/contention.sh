#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Throughput of all allocators with 1 to 16 threads. Run in the build folder, or
# with --build FOLDER; --help for more.
exec python3 "$(dirname "$0")/contention.py" "$@"
