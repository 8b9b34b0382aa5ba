"""Writes each request in two pieces. Usage: client.py HOST PORT COUNT"""
import socket
import sys

stream = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for _ in range(int(sys.argv[3])):
    stream.sendall(b"head")
    stream.sendall(b"b" * 100)
    got = 0
    while got < 100:
        part = stream.recv(100 - got)
        if not part:
            sys.exit(7)
        got += len(part)
print("done")
