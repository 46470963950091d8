#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# All allocators side by side. Run in the build folder, or with --build FOLDER;
# --help for more.
exec python3 "$(dirname "$0")/run.py" "$@"
