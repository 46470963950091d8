#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What recording costs an event, and the bytes it takes. Run in the build
# folder, or with --build FOLDER; --help for more.
exec python3 "$(dirname "$0")/trace_cost.py" "$@"
