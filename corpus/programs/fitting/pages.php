<?php
// A server of pages that writes head and body apart. Arguments: port, bytes.
$server = stream_socket_server("tcp://0.0.0.0:{$argv[1]}");
while ($client = stream_socket_accept($server, -1)) {
    while (($line = fgets($client)) !== false) {
        if (trim($line) !== '') {
            continue;
        }
        fwrite($client, "HTTP/1.1 200 OK\r\nContent-Length: {$argv[2]}\r\n\r\n");
        fwrite($client, str_repeat('x', (int)$argv[2]));
    }
    fclose($client);
}
