# SPDX-License-Identifier: BSD-3-Clause
# What lang.sh records: lines that say what they allocate (lang.py), and code
# made at run time, which is printed.

def plain(n)
  "x" * n  #= 40 70001 plain 10 10
end

def boxes
  4.times { 10.times { plain(70_000) } }
end

def thrower(depth)
  if depth == 0
    "x" * 72_000  #= 500 72001 thrower 18 18 18
    raise ArgumentError
  end
  thrower(depth - 1)
ensure
  "x" * 73_000  #= 2000 73001 ensure_in_thrower
end

def exceptions
  500.times do
    thrower(3)
  rescue ArgumentError
    "x" * 74_000  #= 500 74001 rescue_in_block_in_exceptions
  end
end

# Ruby 3.4 labels code of eval so, and makes the label of a backtrace anew.
LABEL = RUBY_VERSION < "3.4" ? "block_in_evaluated" : "<compiled>"

# Code at the addresses of code that is gone: other lines, other files.
def evaluated
  300.times do |i|
    file = "made_#{i % 10}.rb"
    line = 1 + i % 7
    eval("'x' * #{200_000 + i}", nil, file, line)
    puts "made #{file} #{line} #{LABEL} #{200_001 + i}"
    GC.start if i % 50 == 0
  end
end

def deep(n)
  return deep(n - 1) if n != 0
  "x" * 75_000  #= 1 75001 deep 46 46 46
end

def fibers
  all = 5.times.map do
    Fiber.new do
      10.times do
        "x" * 76_000  #= 50 76001 block_(3_levels)_in_fibers
        Fiber.yield
      end
    end
  end
  11.times { all.each { |f| f.resume if f.alive? } }
end

def enumerators
  e = Enumerator.new do |y|
    loop { y << "x" * 77_000 }  #= 20 77001 block_(2_levels)_in_enumerators
  end
  20.times { e.next }
end

def in_thread
  300.times do
    "x" * 78_000  #= 1200 78001 block_in_in_thread
  end
end

at_exit { "x" * 79_000 }  #= 1 79001 block_in_<main>

boxes
exceptions
evaluated
deep(200)
fibers
enumerators
4.times.map { Thread.new { in_thread } }.each(&:join)
GC.compact if GC.respond_to?(:compact)
boxes_again = 1
puts "done #{boxes_again}"
exit 7
