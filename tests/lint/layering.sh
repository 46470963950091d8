#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A folder includes only from the folders below it; the kernel is asked for
# memory in one place, memory orders are named in one place, and src/ has no
# malloc and no stdio. No two sources have one name.
. "$top_srcdir/tests/lib/lint.sh"

# bad_includes FOLDER ALLOWED...: "file: include" for each quoted include from
# a file of FOLDER that is not of an allowed folder or file.
bad_includes() {
    folder=$1
    shift
    allowed=
    for name in "$@"; do
        case $name in *.h) ;; *) name=$name/ ;; esac
        allowed="$allowed$name|"
    done
    files=$(list "$folder/*.c" "$folder/*.h" | grep "^$folder/")
    [ -z "$files" ] || (
        cd "$tree" || exit
        # shellcheck disable=SC2086
        allowed="^(${allowed%|})" awk '
            BEGIN { allowed = ENVIRON["allowed"] }
            /^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*"/ {
                split($0, part, "\"")
                if (part[2] ~ allowed)
                    next
                print FILENAME ": includes " part[2]
            }' $files
    )
}

base_includes() { bad_includes src/base base; }
traceformat_includes() {
    bad_includes src/traceformat base traceformat
}
core_includes() { bad_includes src/core base core; }
# Parts of sites, from below: settings and tables, the two folders that walk,
# definitions, and the code that finds sites.
sites_includes() {
    bad_includes src/sites base traceformat sites
    bad_includes src/sites/unwind base traceformat sites/unwind \
        sites/site_table.h sites/site_settings.h
    bad_includes src/sites/lang base traceformat sites/unwind sites/lang \
        sites/site_settings.h sites/site_table.h
}
tracer_includes() {
    bad_includes src/tracer base traceformat sites tracer
}
# Streams of threads are below the saver; only the slow path of a thread
# (thread_life.c) calls it. Both stand on the recorder, below sessions.
tracer_part_includes() {
    shared="base traceformat sites tracer/stream tracer/own_thread.h
        tracer/recorder.h tracer/recording.h
        tracer/trace_clock.h tracer/trace_name.h tracer/trace_process.h"
    # shellcheck disable=SC2086
    bad_includes src/tracer/saver $shared tracer/saver
    # shellcheck disable=SC2086
    bad_includes src/tracer/stream $shared tracer/saver/saver.h \
        tracer/session.h tracer/tracer.h
    grep -l 'include "tracer/saver/' "$tree"/src/tracer/stream/*.[ch] |
        sed "s,^$tree/,," | grep -vx src/tracer/stream/thread_life.c
}
api_includes() {
    bad_includes src/api base core traceformat sites tracer api gperftools
}
preload_includes() { bad_includes src/preload base gperftools; }
gperftools_includes() { bad_includes src/gperftools gperftools; }
common_includes() {
    bad_includes malloc-trace-replay/common base traceformat common
}
pages_includes() {
    bad_includes malloc-trace-replay/pages base common pages
}
trace_includes() {
    bad_includes malloc-trace-replay/trace base traceformat common trace
}
model_includes() {
    bad_includes malloc-trace-replay/model base traceformat common trace model
}
formats_includes() {
    bad_includes malloc-trace-replay/formats base traceformat common trace \
        formats
}
# Siblings: neither the sorter nor windows of traces know of each other.
sort_includes() {
    bad_includes malloc-trace-replay/sort base traceformat common trace model \
        sort
}
window_includes() {
    bad_includes malloc-trace-replay/window base traceformat common trace \
        model window
}
open_includes() {
    bad_includes malloc-trace-replay/open base traceformat common trace model \
        sort formats open
}
symbols_includes() {
    bad_includes malloc-trace-replay/symbols base traceformat common trace \
        model symbols
}
# Programs and subcommands of malloc-trace.
program_includes() {
    below="base traceformat common pages trace model sort window formats open
        symbols gperftools"
    for program in allocator bump_pipes postprocess replay; do
        # shellcheck disable=SC2086
        bad_includes "malloc-trace-replay/cmd/$program" $below "cmd/$program"
    done
    # shellcheck disable=SC2086
    bad_includes malloc-trace-replay/cmd/replay/feed $below cmd/replay/feed
    for command in "$tree"/malloc-trace-replay/cmd/malloc_trace/*/; do
        command=$(basename "$command")
        # leaks is a report of its own, made of the parts of report; tune
        # runs comparisons; memory runs contestants and names sites
        case $command in
        leaks) also=cmd/malloc_trace/report ;;
        tune) also=cmd/malloc_trace/compare ;;
        memory) also="cmd/malloc_trace/compare cmd/malloc_trace/report" ;;
        *) also= ;;
        esac
        # shellcheck disable=SC2086
        bad_includes "malloc-trace-replay/cmd/malloc_trace/$command" $below \
            "cmd/malloc_trace/$command" cmd/malloc_trace/subcommands.h $also
    done
}
# Public headers may be included from the system's place only by users.
angle_includes() {
    (cd "$tree" && grep -rnE --include='*.[ch]' \
        '#[[:blank:]]*include[[:blank:]]*<(base|core|traceformat|sites|tracer|api|common|pages|trace|model|sort|window|formats|open|symbols|cmd)/' \
        src malloc-trace-replay)
}

# calls FOLDER PATTERN [EXCEPT]: lines of code in FOLDER that match, without
# comments and text in quotes.
calls() {
    files=$(list "$1/*.c" "$1/*.h" | grep "^$1/" | grep -Ev "^(${3:-none})\$")
    [ -z "$files" ] || (
        cd "$tree" || exit
        # shellcheck disable=SC2086
        pattern=$2 awk '
            BEGIN { pattern = ENVIRON["pattern"] }
            FNR == 1 { skip = 0 }
            skip && !/\*\// { next }
            {
                line = $0
                gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
                if (skip) {
                    sub(/.*\*\//, "", line)
                    skip = 0
                }
                gsub(/\/\*.*\*\//, "", line)
                if (sub(/\/\*.*/, "", line))
                    skip = 1
                if (line ~ pattern)
                    print FILENAME " " FNR ":" line
            }' $files
    )
}

process_calls() {
    calls malloc-trace-replay \
        '(^|[^[:alnum:]_])(v?fork|posix_spawnp?|popen|system)[[:blank:]]*\(' \
        'malloc-trace-replay/common/child.c'
}

memory_calls() {
    # The clock of a replay stands before the C library's functions.
    clock='malloc-trace-replay/cmd/replay/(run/(recorded_clock|clock_calls|clock_probe)|watch/returns).c'
    calls malloc-trace-replay '(^|[^[:alnum:]_])(mmap|munmap|mremap|mprotect|madvise|s?brk|syscall)[[:blank:]]*\(' \
        "$clock"
    calls malloc-trace-replay 'SYS_|FUTEX_' "$clock"
    calls src '(^|[^[:alnum:]_])(mmap|munmap|mremap|mprotect|madvise|s?brk)[[:blank:]]*\(' \
        'src/base/linux/os_mem.c'
    calls src '(SYS_|tcm_call\()(mmap|munmap|mremap|mprotect|madvise|brk)' \
        'src/base/linux/os_mem.c'
}
memory_orders() {
    calls src '__ATOMIC_|memory_order_|__sync_|stdatomic' 'src/base/atomic.h'
    calls malloc-trace-replay '__ATOMIC_|memory_order_|__sync_|stdatomic'
}
# System calls whose functions a preloaded library may replace are made by the
# instruction.
system_calls() {
    for folder in base sites tracer; do
        calls "src/$folder" '(^|[^[:alnum:]_.>])(syscall|clock_gettime|f?stat|fstatat|statx|p?(read|write)|open|openat|close|fcntl|ftruncate|fallocate|lseek|getrlimit|getrusage|p?poll|nanosleep|get[pt]id|getppid|gete?uid|socket|bind|listen|accept4?|send|recv|ioctl|readlink|unlink|rename|renameat|mincore|personality)[[:blank:]]*\(' \
            'src/base/linux/os_syscall.h'
    done
}
# malloc_info() gets a stream by its contract; rename() is declared in
# <stdio.h>.
stdio_calls() {
    calls src '(^|[^[:alnum:]_])(v?(f|s|sn|d|as)?printf|f?puts|fopen|fwrite|fread|perror|setlocale)[[:blank:]]*\(|FILE \*' \
        'src/api/malloc_info.c'
}
# Outputs of tools are opened by common/files.h, which follows no link and opens
# no file of another user's; files of the kernel are no outputs.
opens_for_writing() {
    (cd "$tree" && grep -rnE --include='*.[ch]' \
        '\<(fopen|fdopen|freopen)(64)?\(|\<O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)\>|\<(creat|mkstemp|tmpnam|tempnam)\(' \
        malloc-trace-replay |
        grep -vE '^malloc-trace-replay/(common/files|pages/page)\.c:|"re"\)|"/(dev/null|proc/self/clear_refs)"')
}
# A name tells the source in messages, comments and searches.
equal_names() {
    list '*.[ch]' | grep -E '^(src|malloc-trace-replay)/' | awk -F / '
        $NF in first { print $0 ": its name is that of " first[$NF] }
        { first[$NF] = $0 }'
}
# The allocator's own definitions live in api.
malloc_calls() {
    for folder in base traceformat core sites tracer; do
        calls "src/$folder" '(^|[^[:alnum:]_.>])(malloc|calloc|realloc|free|strdup|posix_memalign|aligned_alloc)[[:blank:]]*\('
    done
}

clean base_includes "base includes only base"
clean traceformat_includes "traceformat includes base"
clean core_includes "core includes base"
clean sites_includes "sites include base and traceformat, unwind and lang less"
clean tracer_includes "tracer includes base, traceformat and sites"
clean tracer_part_includes "streams include the saver in one place"
clean api_includes "api includes the layers below"
clean gperftools_includes "public headers stand alone"
clean preload_includes "preload includes base and public headers"
clean common_includes "common includes base and traceformat"
clean pages_includes "pages include common"
clean trace_includes "trace includes common too"
clean model_includes "model includes trace too"
clean formats_includes "formats include trace too"
clean sort_includes "the sorter includes model too, and no windows"
clean window_includes "windows include model too, and not the sorter"
clean open_includes "open includes the sorter and formats"
clean symbols_includes "symbols include model too"
clean program_includes "programs and subcommands never include each other"
clean angle_includes "own headers are included in quotes"
clean process_calls "processes of the tools are made by common/child.c"
clean memory_calls "only base asks the kernel for memory and futexes"
clean system_calls "system calls go through os_syscall.h"
clean memory_orders "only atomic.h names memory orders"
clean stdio_calls "no stdio and no locale in src"
clean malloc_calls "no malloc below api"
clean opens_for_writing "outputs are opened by common/files.h"
clean equal_names "no two sources have one name"

catches core_includes "core including tracer" src/core/planted.c \
    '#include "tracer/tracer.h"'
catches sites_includes "sites including tracer" src/sites/planted.h \
    '#include "tracer/recorder.h"'
catches sites_includes "a walk including what finds sites" \
    src/sites/unwind/planted.h '#include "sites/call_sites.h"'
catches tracer_includes "tracer including core" src/tracer/planted.h \
    '#include "core/heap.h"'
catches tracer_part_includes "a buffer including the saver" \
    src/tracer/stream/planted.h '#include "tracer/saver/saver.h"'
catches tracer_part_includes "the saver including sessions" \
    src/tracer/saver/planted.h '#include "tracer/session.h"'
catches program_includes "a program including core" \
    malloc-trace-replay/cmd/replay/planted.c '#include "core/heap.h"'
catches program_includes "a program including another" \
    malloc-trace-replay/cmd/replay/planted.c \
    '#include "cmd/malloc_trace/subcommands.h"'
catches program_includes "what feeds a replay including what runs it" \
    malloc-trace-replay/cmd/replay/feed/planted.c \
    '#include "cmd/replay/run/exec.h"'
catches program_includes "a subcommand including another" \
    malloc-trace-replay/cmd/malloc_trace/record/planted.c \
    '#include "cmd/malloc_trace/info/info_print.h"'
catches program_includes "report including leaks" \
    malloc-trace-replay/cmd/malloc_trace/report/planted.c \
    '#include "cmd/malloc_trace/leaks/leaks_find.h"'
catches pages_includes "pages including a trace" \
    malloc-trace-replay/pages/planted.c '#include "trace/ops.h"'
catches sort_includes "the sorter including windows" \
    malloc-trace-replay/sort/planted.c '#include "window/filter.h"'
catches window_includes "windows including the sorter" \
    malloc-trace-replay/window/planted.c '#include "sort/order.h"'
catches sort_includes "the sorter including a program" \
    malloc-trace-replay/sort/planted.c '#include "cmd/replay/feed/ring.h"'
catches model_includes "model including a program" \
    malloc-trace-replay/model/planted.c '#include "cmd/replay/feed/ring.h"'
catches sort_includes "the sorter including what opens" \
    malloc-trace-replay/sort/planted.c '#include "open/trace_open.h"'
catches formats_includes "a format including the sorter" \
    malloc-trace-replay/formats/planted.c '#include "sort/sorter.h"'
catches open_includes "what opens including a program" \
    malloc-trace-replay/open/planted.c '#include "cmd/replay/feed/ring.h"'
catches symbols_includes "names of addresses including a program" \
    malloc-trace-replay/symbols/planted.c \
    '#include "cmd/malloc_trace/subcommands.h"'
catches formats_includes "a format including model" \
    malloc-trace-replay/formats/planted.c '#include "model/info.h"'
catches angle_includes "angle brackets around an own header" \
    src/core/planted.c '#include <core/heap.h>'
catches process_calls "a fork of a tool" \
    malloc-trace-replay/cmd/replay/planted.c '    pid_t child = fork();'
catches memory_calls "a call of mmap" src/core/planted.c \
    '    p = mmap(NULL, n, 0, 0, -1, 0);'
catches memory_calls "a futex of a tool" \
    malloc-trace-replay/cmd/replay/planted.c \
    '    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);'
catches memory_calls "a system call for memory" src/core/planted.c \
    '    tcm_call(munmap, p, n);'
catches system_calls "a call that a library may stand before" \
    src/tracer/planted.c '    if (fstat(fd, &st) != 0)'
catches memory_orders "a memory order" src/tracer/planted.c \
    '    __atomic_load_n(p, __ATOMIC_RELAXED);'
catches stdio_calls "stdio" src/tracer/planted.c \
    '    fprintf(stderr, "x");'
catches opens_for_writing "a stream for writing" \
    malloc-trace-replay/cmd/replay/planted.c '    f = fopen(name, "we");'
catches opens_for_writing "a file made by hand" \
    malloc-trace-replay/cmd/replay/planted.c \
    '    fd = open(name, O_WRONLY | O_CREAT, 0666);'
catches equal_names "a name that another source has" \
    malloc-trace-replay/trace/lock.c 'int x;'
catches malloc_calls "malloc" src/tracer/planted.c '    p = malloc(8);'
tap_end
