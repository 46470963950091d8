# SPDX-License-Identifier: BSD-3-Clause
# What lang.sh records: lines that say what they allocate (lang.py), and code
# made at run time, which is printed.
use strict;
use warnings;
use threads;

sub plain {
    my ($n) = @_;
    my %new;
    vec( $new{s}, $n - 1, 8 ) = 1;    #= 40 70008 plain 17
    return;
}

sub boxes {
    for ( 1 .. 4 ) {
        plain(70000) for 1 .. 10;
    }
    return;
}

sub thrower {
    my ($depth) = @_;
    if ( $depth == 0 ) {
        my %new;
        vec( $new{s}, 71999, 8 ) = 1;    #= 500 72008 thrower 29 29 29
        die "thrown\n";
    }
    thrower( $depth - 1 );
    return;
}

sub exceptions {
    for ( 1 .. 500 ) {
        my %new;
        eval { thrower(3); 1 } or vec( $new{s}, 73999, 8 ) = 1; #= 500 74008 exceptions
    }
    return;
}

# Code at the addresses of code that is gone: other lines, other files.
sub evaluated {
    for my $i ( 0 .. 299 ) {
        my ( $file, $line ) = ( "made_" . $i % 10, 1 + $i % 7 );
        my $n = 199999 + 8 * $i;
        my $f = eval "#line $line \"$file\"\nsub { vec( my \$s, $n, 8 ) = 1 }";
        $f->();
        print "made $file $line __ANON__ ", $n + 9, "\n";
    }
    return;
}

sub deep {
    my ($n) = @_;
    no warnings 'recursion';
    return deep( $n - 1 ) if $n != 0;
    vec( my $s, 74999, 8 ) = 1;    #= 1 75008 deep 56 56 56
    return;
}

package Late;
sub new     { return bless {}, shift }
sub DESTROY { my %new; vec( $new{s}, 75999, 8 ) = 1; return }    #= 102 76008 DESTROY

package main;

sub late {
    Late->new for 1 .. 100;
    return;
}

sub sorted {
    my @x = sort {
        vec( my $s, 76999, 8 ) = 1;    #= 1 77008 sorted
        $a <=> $b
    } ( 1, 2 );
    return;
}

sub in_thread {
    for ( 1 .. 300 ) {
        my %new;
        vec( $new{s}, 77999, 8 ) = 1;    #= 1200 78008 in_thread
    }
    return;
}

boxes();
exceptions();
evaluated();
deep(200);
late();
sorted();
$_->join for map { threads->create( \&in_thread ) } 1 .. 4;
our $at_end = Late->new;
our $cycle  = Late->new;
$cycle->{self} = $cycle;
print "done\n";
END { vec( my $s, 78999, 8 ) = 1; }    #= 1 79008 END
exit 7;
