#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Speed of postprocess and replay. Run in the build folder, or with --build
# FOLDER; --help for more.
exec python3 "$(dirname "$0")/postprocess_replay.py" "$@"
