# SPDX-License-Identifier: BSD-3-Clause
# Words split, counted, grouped, sorted and joined; ROUNDS times.
rounds = (ARGV[0] || "6").to_i
seed = 12345
total = 0

rounds.times do
  lines = Array.new(3000) do
    Array.new(10) do |i|
      seed = (seed * 1103515245 + 12345) % 2147483648
      "word#{(seed >> 8) % 3000}" + "x" * (i % 5 * 8)
    end.join(" ")
  end
  count = Hash.new(0)
  lines.each { |line| line.split(" ").each { |word| count[word] += 1 } }
  by_length = count.keys.sort.group_by(&:length)
  by_length.keys.sort.each do |length|
    total += by_length[length].reverse.join(",").length
  end
  total += lines.map { |line| line.gsub(/word(\d)/, 'w-\1').upcase }.sum(&:length)
end
exit(total == 0 ? 1 : 0)
