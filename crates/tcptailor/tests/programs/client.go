// Writes each request in two pieces, with Nagle's algorithm on. Usage: client HOST PORT COUNT
package main

import (
	"io"
	"net"
	"os"
	"strconv"
)

func main() {
	conn, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetNoDelay(false)
	count, _ := strconv.Atoi(os.Args[3])
	reply := make([]byte, 100)
	for i := 0; i < count; i++ {
		conn.Write([]byte("head"))
		conn.Write(make([]byte, 100))
		if _, err := io.ReadFull(conn, reply); err != nil {
			panic(err)
		}
	}
	os.Stdout.WriteString("done\n")
}
