# frozen_string_literal: true

# SPDX-License-Identifier: BSD-3-Clause
require "fiddle"

# Control of the recording of this process's memory requests, by
# libtcmalloc_minimal_tracing, and figures of what its lines have allocated so
# far. Without that library all methods do nothing.
#
#     require "malloc_trace"      # or by its path, share/malloc-trace
#     MallocTrace.start("t.lz4")
#     ...
#     MallocTrace.dump            # total_bytes call_count location
#     MallocTrace.stop
#
# Lines are recorded with TCMALLOC_TRACE_SITES=lang.
module MallocTrace
  NAME_ROOM = 4096
  ROW = /\A *(\d+) +(\d+) (.*)$/
  private_constant :NAME_ROOM, :ROW

  class << self
    # The command that reads traces.
    attr_writer :tool

    # Begins a recording to PATH (nil: the output that TCMALLOC_TRACE_OUTPUT named
    # at the start). false: one is on already, or it cannot begin.
    def start(path = nil)
      call("malloc_trace_start", [Fiddle::TYPE_VOIDP], [path&.to_s])
    end

    # Ends the recording; the trace is whole then.
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
      call("malloc_trace_mark", [Fiddle::TYPE_VOIDP], [text.to_s])
      nil
    end

    # Yields location, bytes and calls of each place that has requested at least
    # MIN bytes since the start or the last reset, most bytes first, without the
    # places in this file. A process that is not recorded, such as some children
    # of fork, has none.
    def each(min = 0)
      return to_enum(:each, min) unless block_given?

      path, rows = totals
      # A start or a fork begins another trace, which has nothing from before.
      before = path == @before&.first ? @before.last : {}
      before.each do |location, (bytes, calls)|
        had = rows[location] or next
        rows[location] = [had[0] - bytes, had[1] - calls]
      end
      rows = rows.select { |_, (bytes, calls)| calls.positive? && bytes >= min }
      rows.sort_by { |location, (bytes, _)| [-bytes, location] }
          .each { |location, (bytes, calls)| yield location, bytes, calls }
      self
    end

    # Writes bytes, calls and location of each place to IO, in columns for sort(1).
    def dump(io = $stdout, min = 0)
      each(min) do |location, bytes, calls|
        io.printf("%16d %12d %s\n", bytes, calls, location)
      end
      nil
    end

    # Leaves all requests up to now out of later figures.
    def reset
      @before = totals
      nil
    end

    # The name of this process's trace; nil: there is none.
    def file
      path = Fiddle::Pointer.malloc(NAME_ROOM, Fiddle::RUBY_FREE)
      types = [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T]
      call("malloc_trace_file", types, [path, NAME_ROOM]) ? path.to_s : nil
    end

    private

    def call(name, types = [], arguments = [])
      pointer = Fiddle::Handle::DEFAULT[name]
      answer = Fiddle::Function.new(pointer, types, Fiddle::TYPE_CHAR)
                               .call(*arguments)
      answer.anybits?(1)
    rescue Fiddle::DLError
      false
    end

    # The name of the trace, and its { location => [bytes, calls] }.
    def totals
      path = file or return nil, {}
      rows = {}
      said = []
      report(path) do |line|
        bytes, calls, location = line.scrub.match(ROW)&.captures
        if location.nil?
          said << line
        elsif !location.include?("#{__FILE__}:")
          rows[location] = [bytes.to_i, calls.to_i]
        end
      end
      # Status 3: the trace is still being recorded.
      raise said.join unless [0, 3].include?(Process.last_status.exitstatus)

      [path, rows]
    end

    # Yields the lines that the tool writes about PATH.
    def report(path, &block)
      clean = { "LD_PRELOAD" => nil }
      ENV.each_key { |key| clean[key] = nil if key.start_with?("TCMALLOC_") }
      tool = @tool || ENV["MALLOC_TRACE_TOOL"] || "malloc-trace"
      command = [clean, tool, "report", "-q", "--columns", path]
      IO.popen(command, err: %i[child out]) { |lines| lines.each_line(&block) }
    end
  end
end
