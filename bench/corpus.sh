#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Replays every trace that is found in folders, of whatever format, under all
# allocators. Run in the build folder, or with --build FOLDER; --help for more.
exec python3 "$(dirname "$0")/corpus.py" "$@"
