#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The places of blocks and all counters are the same with and without object
# words, and with words that are used.
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
