# HTTP::Daemon, a page of so many bytes. Arguments: port, bytes.
use strict;
use warnings;
use HTTP::Daemon;
use HTTP::Response;

my ($port, $bytes) = @ARGV;
my $daemon = HTTP::Daemon->new(LocalAddr => '0.0.0.0', LocalPort => $port, ReuseAddr => 1) or die $!;
while (my $client = $daemon->accept) {
    while ($client->get_request) {
        my @head = ('Content-Type' => 'text/plain', 'Content-Length' => $bytes);
        $client->send_response(HTTP::Response->new(200, 'OK', \@head, 'x' x $bytes));
    }
}
