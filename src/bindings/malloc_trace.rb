# frozen_string_literal: true

# SPDX-License-Identifier: BSD-3-Clause
require "fiddle"
require "open3"

# Control of the recording of this process's memory requests, by
# libtcmalloc_minimal_tracing, and what its lines allocated so far. In a process
# that does not run with that library nothing happens, and nothing is recorded.
#
#     require "malloc_trace"      # or by its path, share/malloc-trace
#     MallocTrace.start("t.lz4")
#     ...
#     MallocTrace.dump            # total_bytes call_count location
#     MallocTrace.stop
#
# Lines are recorded with TCMALLOC_TRACE_SITES=lang.
module MallocTrace
  class << self
    # The command that reads traces.
    attr_writer :tool

    # The trace that each and dump read, if it is not the one that start or the
    # environment named.
    attr_writer :file

    # Begins a recording to PATH (nil: what TCMALLOC_TRACE_OUTPUT named at the
    # start). false: one is on already, or it cannot begin.
    def start(path = nil)
      good = call("malloc_trace_start", Fiddle::TYPE_VOIDP, path&.to_s)
      if good
        @file = path && newest(expand(path.to_s))
        @before = nil
      end
      good
    end

    # Ends it; the trace is whole then.
    def stop
      call("malloc_trace_stop")
    end

    # true: all events so far are in the file.
    def flush
      call("malloc_trace_flush")
    end

    def on?
      call("malloc_trace_is_on")
    end

    # Puts TEXT and the time into the trace, at most 127 bytes.
    def mark(text)
      call("malloc_trace_mark", Fiddle::TYPE_VOIDP, text.to_s)
      nil
    end

    # Yields location, bytes and calls of each place that asked for memory since
    # the start or the last reset, with at least MIN bytes, most bytes first.
    def each(min = 0)
      return to_enum(:each, min) unless block_given?

      rows = totals
      (@before || {}).each do |location, (bytes, calls)|
        had = rows[location] or next
        rows[location] = [had[0] - bytes, had[1] - calls]
      end
      rows = rows.select { |_, (bytes, calls)| calls.positive? && bytes >= min }
      rows.sort_by { |location, (bytes, _)| [-bytes, location] }
          .each { |location, (bytes, calls)| yield location, bytes, calls }
      self
    end

    # Writes the same to IO, in three columns that sort(1) sorts.
    def dump(io = $stdout, min = 0)
      each(min) do |location, bytes, calls|
        io.printf("%16d %12d %s\n", bytes, calls, location)
      end
      nil
    end

    # What was asked for up to now is left out from now on.
    def reset
      @before = totals
      nil
    end

    # The trace of this process.
    def file
      @file ||
        newest(expand(ENV["TCMALLOC_TRACE_OUTPUT"] || raise("no recording")))
    end

    private

    def call(name, type = nil, argument = nil)
      pointer = Fiddle::Handle::DEFAULT[name]
      types = type ? [type] : []
      arguments = type ? [argument] : []
      answer = Fiddle::Function.new(pointer, types, Fiddle::TYPE_CHAR)
                               .call(*arguments)
      answer.anybits?(1)
    rescue Fiddle::DLError
      false
    end

    def expand(pattern)
      pattern.gsub(/%[pe%]/) do |what|
        case what
        when "%p" then Process.pid.to_s
        when "%e" then File.basename(File.readlink("/proc/self/exe"))
        else "%"
        end
      end
    end

    # A recording that finds its name taken gets a number; one that goes on has
    # its spool beside it.
    def newest(path)
      all = [path] + (1..99).map { |i| "#{path}.#{i}" }.take_while do |name|
        File.exist?(name)
      end
      all.reverse.find { |name| File.exist?("#{name}.spool") } || all.last
    end

    # { location => [bytes, calls] }
    def totals
      flush
      clean = { "LD_PRELOAD" => nil }
      ENV.each_key { |key| clean[key] = nil if key.start_with?("TCMALLOC_") }
      tool = @tool || ENV["MALLOC_TRACE_TOOL"] || "malloc-trace"
      output, said, status =
        Open3.capture3(clean, tool, "report", "-q", "--columns", file)
      # 3: it is still being recorded.
      raise said unless [0, 3].include?(status.exitstatus)

      output.each_line.to_h do |line|
        bytes, calls, location = line.chomp.split(" ", 3)
        [location, [bytes.to_i, calls.to_i]]
      end
    end
  end
end
