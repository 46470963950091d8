#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processed traces that contradict themselves: info and replay tell each, with
# status 3, and replay runs what can be run.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace" "$replay"
need_python
cd "$work" || exit 99

"$python" "$here/formats/contradictions.py" . >cases || exit 99

# told STATUS WORDS WHAT COMMAND...: that status, and a line with WORDS.
told() {
    status=$1 words=$2 what=$3
    shift 3
    timeout 60 "$@" >text 2>errors
    is "$what: exit status" "$?" "$status"
    if [ "$status" = 0 ]; then
        is "$what: nothing is told" \
            "$(grep -vE 'warning: (2 threads|with --threads=real)' errors)" ""
    else
        check "$what: $words" grep -q -e "$words" errors
        check "$what: lines" [ "$(wc -l <errors)" -le 22 ]
    fi
}

while IFS='|' read -r file what words replay_words; do
    status=3
    [ -n "$words" ] || status=0
    told $status "$words" "info: $what" "$malloc_trace" info "$file"
    complete=no
    [ $status = 3 ] || complete=yes
    check "info: $what: complete $complete" \
        grep -q "^  complete  *$complete" text
    told $status "$replay_words" "replay: $what" "$replay" "$file"
    check "replay: $what: what can be run is" grep -q '^operations ' text
done <cases
at_least "cases" "$(wc -l <cases)" 60
tap_end
