#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bump-pipes: sizes of the pipes, what is no pipe, exit statuses.
. "$top_srcdir/tests/lib/preload.sh"

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
# Users other than root may have used up their pages; then it is less.
[ "$in_size" -gt 65536 ] && [ "$in_size" -le "$most" ]
result $? "the pipe on stdin is larger than by default ($in_size)"
[ "$out_size" -gt 65536 ] && [ "$out_size" -le "$most" ]
result $? "so is the one on stdout ($out_size)"
if [ "$(id -u)" -eq 0 ]; then
    is "$in_size $out_size" "$most $most" "both have the largest size"
else
    skip "both have the largest size" "only root may always have it"
fi

"$bump_pipes" ./pipe_sizes </dev/null >file 2>sizes
is "$?" 0 "files are no error"
is "$(cat sizes)" "-1 -1" "and stay files"
"$bump_pipes" ./pipe_sizes <&- >&- 2>sizes
is "$?" 0 "closed descriptors are no error"

is "$(printf 'abc' | "$bump_pipes" cat | cat)" abc "data passes"
run "$bump_pipes" sh -c 'echo out; echo err >&2; exit 7'
is "$status $(cat "$out") $(cat "$err")" "7 out err" \
    "status and outputs are the command's"
run "$bump_pipes" sh -c 'echo "$@"' name -x --help -- y
is "$(cat "$out")" "-x --help -- y" "the command's options are its own"
run "$bump_pipes" -- sh -c 'exit 3'
is "$status" 3 "after two dashes"
run "$bump_pipes" sh -c 'kill -PIPE $$'
is "$status" 141 "the command can die of a closed pipe"

fails_with 2 "no command" "$bump_pipes"
like "$err" "^bump-pipes: no command" "is told"
is "$(wc -l <"$err")" 1 "in one line"
fails_with 2 "an unknown option" "$bump_pipes" --size=1 true
fails_with 127 "a command that is not there" "$bump_pipes" ./nonexistent
like "$err" "cannot run ./nonexistent: No such file" "is told"
fails_with 126 "a command that cannot be run" "$bump_pipes" /
ok "help" "$bump_pipes" --help
like "$out" "^Usage: bump-pipes" "is on stdout"
ok "version" "$bump_pipes" --version
tap_end
