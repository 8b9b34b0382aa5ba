"""Reads until the end of each connection, then closes it. Usage: sink.py HOST PORT"""
import socket
import sys

server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    stream, _ = server.accept()
    while stream.recv(1 << 20):
        pass
    stream.close()
