<?php
// posts.php HOST PORT BYTES: POST after POST on one connection, head and body written apart.
$held = stream_socket_client("tcp://$argv[1]:$argv[2]");
$body = str_repeat("x", (int) $argv[3]);
$head = "POST / HTTP/1.1\r\nHost: lab\r\nContent-Length: " . strlen($body) . "\r\n\r\n";
while (true) {
    fwrite($held, $head);
    fwrite($held, $body);
    $left = 0;
    while (($line = fgets($held)) !== "\r\n") {
        if ($line === false) exit(1);
        if (stripos($line, "content-length:") === 0) $left = (int) substr($line, 15);
    }
    while ($left > 0) $left -= strlen(fread($held, $left));
}
