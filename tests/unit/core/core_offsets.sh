#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where blocks lie, and every counter, must not depend on whether object words
# are built in, or used.
. "$top_srcdir/tests/lib/harness.sh"

folder=$top_builddir/tests/unit/core
check "without object words" "$folder/core_offsets_plain"
cp "$out" plain
check "again" "$folder/core_offsets_plain"
cp "$out" again
check "places blocks alike" cmp again plain
check "object words built in" "$folder/core_offsets_words"
cp "$out" built
check "change nothing" cmp built plain
check "object words in use" "$folder/core_offsets_words" used
cp "$out" used
check "change nothing" cmp used plain
tap_end
