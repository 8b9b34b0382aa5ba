# Sends messages of so many bytes and four more, each in two writes, and waits for one byte of answer.
import std/[net, os, strutils]

let socket = newSocket(buffered = false)
socket.connect(paramStr(1), Port(parseInt(paramStr(2))))
let message = repeat('x', parseInt(paramStr(3)))
while true:
  socket.send(message)
  socket.send("end\n")
  if socket.recv(1).len == 0: break
