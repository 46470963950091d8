#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where blocks lie, and every counter, must not depend on whether object words
# are built in, or used.
echo 1..3
bin=$top_builddir/tests/unit/core
plain=$("$bin/core_offsets_plain") || exit 1
built=$("$bin/core_offsets_words") || exit 1
used=$("$bin/core_offsets_words" used) || exit 1
again=$("$bin/core_offsets_plain") || exit 1
n=0
check() {
    n=$((n + 1))
    if [ -n "$1" ] && [ "$1" = "$2" ]; then
        echo "ok $n - $3"
    else
        printf '%s\n' "$1" "$2" | sed 's/^/# /'
        echo "not ok $n - $3"
    fi
}
check "$plain" "$again" "two runs place blocks alike"
check "$plain" "$built" "object words built in change nothing"
check "$plain" "$used" "object words in use change nothing"
