#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bump-pipes: sizes of pipes, files that are not pipes, exit statuses.
. "$top_srcdir/tests/lib/harness.sh"

cat >pipe_sizes.c <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
int main(void) {
    fprintf(stderr, "%d %d\n", fcntl(0, F_GETPIPE_SZ), fcntl(1, F_GETPIPE_SZ));
    return 0;
}
END
run ${CC:-cc} -o pipe_sizes pipe_sizes.c || skip_all "no compiler here"

most=$(cat /proc/sys/fs/pipe-max-size)
: | "$bump_pipes" ./pipe_sizes 2>sizes | cat
read -r in_size out_size <sizes
# Less for users other than root who have used up their pages.
[ "$in_size" -gt 65536 ] && [ "$in_size" -le "$most" ]
result "the pipe on stdin is larger than by default ($in_size)" $?
[ "$out_size" -gt 65536 ] && [ "$out_size" -le "$most" ]
result "so is the one on stdout ($out_size)" $?
if [ "$(id -u)" -eq 0 ]; then
    is "both have the largest size" "$in_size $out_size" "$most $most"
else
    skip "both have the largest size" "only root may always have it"
fi

"$bump_pipes" ./pipe_sizes </dev/null >file 2>sizes
is "files are no error" "$?" 0
is "and stay files" "$(cat sizes)" "-1 -1"
"$bump_pipes" ./pipe_sizes <&- >&- 2>sizes
is "closed descriptors are no error" "$?" 0

is "data passes" "$(printf 'abc' | "$bump_pipes" cat | cat)" abc
run "$bump_pipes" sh -c 'echo out; echo err >&2; exit 7'
is "status and outputs are the command's" \
    "$status $(cat "$out") $(cat "$err")" "7 out err"
run "$bump_pipes" sh -c 'echo "$@"' name -x --help -- y
is "the command's options are its own" "$(cat "$out")" "-x --help -- y"
run "$bump_pipes" -- sh -c 'exit 3'
is "after two dashes" "$status" 3
run "$bump_pipes" sh -c 'kill -PIPE $$'
is "the command can die of a closed pipe" "$status" 141

fails_with "no command" 2 "$bump_pipes"
like "a message" "$err" "^bump-pipes: no command"
is "in one line" "$(wc -l <"$err")" 1
fails_with "an unknown option" 2 "$bump_pipes" --size=1 true
fails_with "a command that is not there" 127 "$bump_pipes" ./nonexistent
like "a message" "$err" "cannot run ./nonexistent: No such file"
fails_with "a command that cannot be run" 126 "$bump_pipes" /
check "help" "$bump_pipes" --help
like "is on stdout" "$out" "^Usage: bump-pipes"
check "version" "$bump_pipes" --version
tap_end
