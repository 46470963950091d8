# SPDX-License-Identifier: BSD-3-Clause
# A list that grows, and work that leaves nothing.
use strict;
use warnings;
my @sessions;

sub remember {
    my ($number) = @_;
    push @sessions, { name => "session $number with some text behind it" };
}

sub compute {
    my @texts = map { "number $_ with some text behind it" } 1 .. 20;
    return scalar @texts;
}

for my $number (1 .. 5000) {
    remember($number);
    compute();
}
print "done ", scalar @sessions, "\n";
