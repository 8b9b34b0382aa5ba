; newlisp relays.lsp HOST PORT: new connections, one after the other, each read to its end.
(set 'host (main-args 2)) (set 'port (int (main-args 3)))
(while true
  (set 's (net-connect host port))
  (net-send s "x")
  (while (net-receive s data 65536))
  (net-close s))
