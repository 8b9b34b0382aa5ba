# Tcl: a client that flushes two parts of each request, and waits for a line.
set channel [socket [lindex $argv 0] [lindex $argv 1]]
fconfigure $channel -translation binary -buffering full
set body [string repeat x [lindex $argv 2]]
while 1 {
    puts $channel "put"
    flush $channel
    puts $channel $body
    flush $channel
    if {[gets $channel] eq "" && [eof $channel]} exit
}
