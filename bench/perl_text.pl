# SPDX-License-Identifier: BSD-3-Clause
# Splits, counts, sorts and joins words; ROUNDS times.
use strict;
use warnings;

my $rounds = shift // 8;
my $seed   = 12345;
my $total  = 0;

sub number {
    $seed = ($seed * 1103515245 + 12345) % 2147483648;
    return $seed >> 8;
}

for my $round (1 .. $rounds) {
    my (%count, @lines, %by_length);
    for my $i (1 .. 4000) {
        push @lines, join ' ',
          map { 'word' . (number() % 3000) . 'x' x ($_ % 5) } 1 .. 10;
    }
    for my $line (@lines) {
        my @words = split / /, $line;
        $count{$_}++ for @words;
        ($line) = map { uc } $line =~ s/word(\d)/w-$1/gr;
    }
    push @{ $by_length{ length $_ } }, $_ for sort keys %count;
    for my $length (sort keys %by_length) {
        my $text = join ',', reverse @{ $by_length{$length} };
        $total += length $text;
    }
    $total += length $_ for @lines;
}
exit($total == 0);
