#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Time and bytes that recording costs an event. Run in the build
# folder, or with --build FOLDER; --help for more.
exec python3 "$(dirname "$0")/trace_cost.py" "$@"
