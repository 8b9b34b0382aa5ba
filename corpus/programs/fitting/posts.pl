# posts.pl URL BYTES: posts without end on one connection; HTTP::Tiny is a part of Perl.
use strict;
use HTTP::Tiny;
my ($url, $bytes) = @ARGV;
my $http = HTTP::Tiny->new;
$http->post($url, { content => "x" x $bytes }) while 1;
