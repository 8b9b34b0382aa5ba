# A server of pages that flushes the head before the body. Arguments: port, bytes.
proc accept {channel address port} {
    fconfigure $channel -translation binary -buffering full -blocking 0
    fileevent $channel readable [list answer $channel]
}

proc answer {channel} {
    while {[gets $channel line] >= 0} {
        if {[string trim $line] ne ""} continue
        puts -nonewline $channel "HTTP/1.1 200 OK\r\nContent-Length: $::size\r\n\r\n"
        flush $channel
        puts -nonewline $channel [string repeat x $::size]
        flush $channel
    }
    if {[eof $channel]} { close $channel }
}

set size [lindex $argv 1]
socket -server accept [lindex $argv 0]
vwait forever
