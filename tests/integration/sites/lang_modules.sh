#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The modules by which Python and Ruby programs control their own recording.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace"
modules=$top_srcdir/src/bindings

controlled() { # COMMAND...
    TCMALLOC_TRACE_SITES=lang TCMALLOC_TRACE_START=0 LD_PRELOAD=$tracing \
        MALLOC_TRACE_TOOL=$malloc_trace "$@"
}

# --- Python -------------------------------------------------------------------

if [ -n "$python" ]; then
    cat >control.py <<'EOF'
import malloc_trace as m
print(m.is_on(), m.stop(), m.flush())
bytearray(70000)
print(m.start("t"), m.start("u"), m.is_on())
m.mark("half of it")
bytearray(80000)
print(m.flush(), m.stop(), m.is_on())
print(m.file())
bytearray(90000)
EOF
    export PYTHONPATH="$modules" PYTHONDONTWRITEBYTECODE=1
    run controlled "$python" control.py
    is "python: what the calls say" "$(tr '\n' ' ' <"$out")" \
        "False False False True False True True True False $PWD/t "
    is "python: nothing else is said" "$(cat "$err")" ""
    "$malloc_trace" dump t >dumped
    is "python: what was between is recorded" \
        "$(grep -cE ' (malloc|calloc)\((70001|80001|90001)\)' dumped)" 1
    like "python: and the mark" dumped 'mark "half of it"'
    run "$python" control.py
    is "python: without the library nothing happens" \
        "$(tr '\n' ' ' <"$out")$(cat "$err")" \
        "False False False False False False False False False None "
    unset PYTHONPATH PYTHONDONTWRITEBYTECODE
else
    skip "python" "no python3"
fi

# --- Ruby ---------------------------------------------------------------------

if have ruby && ruby -rfiddle -e 'exit RUBY_VERSION.start_with?("3.1.", "3.2.", "3.3.", "3.4.")'; then
    cat >control.rb <<'EOF'
require "malloc_trace"
require "stringio"
M = MallocTrace
p [M.on?, M.stop, M.flush]
"x" * 70_000
p [M.start("r"), M.start("s"), M.on?, File.basename(M.file)]
30.times { "x" * 80_000 }
M.mark("then")
rows = StringIO.new
M.dump(rows, 1_000_000)
bytes, calls, location = rows.string.split(" ", 3)
p [bytes.to_i / 80_001, calls.to_i >= 30, location[/control.rb:\d+/],
   rows.string.lines.size]
M.reset
20.times { "x" * 90_000 }
M.each(1_000_000) do |where, sum, count|
  p [where[/control.rb:\d+/], sum / 90_001, count >= 20]
end
p M.each.first.size
M.reset
10.times { "x" * 50_000 }
3.times { M.each { nil } }
p(M.each.sum { |_, sum, _| sum } / 50_001)
Dir.chdir("/")
p M.each.first[1] / 50_001
# A child that is not recorded has no figures, its parent's least of all.
Process.wait(fork { p [M.on?, M.file, M.each.to_a, M.reset, M.dump] })
p [M.flush, M.stop, M.on?]
Dir.chdir(File.dirname(M.file))
p [M.start("r"), M.each.to_a.size < 20, File.basename(M.file), M.stop]
EOF
    run controlled ruby -I "$modules" control.rb
    is "ruby: what the calls say" "$(cat "$out")" \
        '[false, false, false]
[true, false, true, "r"]
[30, true, "control.rb:7", 1]
["control.rb:15", 20, true]
3
10
10
[false, nil, [], nil, nil]
[true, true, false]
[true, true, "r.1", true]'
    is "ruby: nothing else is said" "$(cat "$err")" ""
    "$malloc_trace" dump r >dumped
    like "ruby: the mark" dumped 'mark "then"'
    is "ruby: what was before is not recorded" "$(grep -c '(70001)' dumped)" 0

    # A recording that the environment named.
    cat >named.rb <<'EOF'
require "malloc_trace"
30.times { "x" * 80_000 }
puts File.basename(MallocTrace.file)
MallocTrace.dump($stdout, 1_000_000)
# A child that is recorded has a trace of its own.
MallocTrace.reset
Process.wait(fork do
  20.times { "x" * 90_000 }
  MallocTrace.dump($stdout, 1_000_000)
end)
EOF
    TCMALLOC_TRACE_SITES=lang TCMALLOC_TRACE_OUTPUT='n.%e.%p' \
        MALLOC_TRACE_TOOL=$malloc_trace LD_PRELOAD=$tracing \
        ruby -I "$modules" named.rb >got
    like "ruby: a recording that the environment named" got '^n\.ruby[0-9.]*$'
    like "ruby: and its lines" got 'named\.rb:2\)*$'
    is "ruby: a child's" "$(awk '/named\.rb:8/ { print $1, $2 }' got)" \
        "1800020 20"
    run ruby -I "$modules" -e 'require "malloc_trace"
        p [MallocTrace.start("r"), MallocTrace.on?, MallocTrace.stop,
           MallocTrace.file, MallocTrace.reset, MallocTrace.dump]'
    is "ruby: without the library nothing happens" "$(cat "$out" "$err")" \
        "[false, false, false, nil, nil, nil]"
else
    skip "ruby" "no ruby 3.1 to 3.4 with fiddle"
fi
tap_end
