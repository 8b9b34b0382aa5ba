// Go's own HTTP server and connections: chunks at a rate, pieces of a message, a small send buffer.
//
// `judged chunks PORT BYTES MS`, `judged pieces ADDRESS`, `judged upload ADDRESS SNDBUF`.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// chunks answers each request with a chunk at each tick, without end.
func chunks(port string, bytes, ms int) {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		for range time.Tick(time.Duration(ms) * time.Millisecond) {
			if _, err := w.Write(make([]byte, bytes)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})
	log.Fatal(http.ListenAndServe(":"+port, nil))
}

func connect(address string) *net.TCPConn {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// pieces writes each message in two pieces with Nagle's algorithm, and reads the answer.
func pieces(address string) {
	conn := connect(address)
	conn.SetNoDelay(false)
	answer := make([]byte, 100)
	for {
		conn.Write(make([]byte, 20))
		conn.Write(make([]byte, 108))
		if _, err := conn.Read(answer); err != nil {
			return
		}
	}
}

func upload(address string, buffer int) {
	conn := connect(address)
	conn.SetWriteBuffer(buffer)
	for {
		if _, err := conn.Write(make([]byte, 65536)); err != nil {
			return
		}
	}
}

func main() {
	switch os.Args[1] {
	case "chunks":
		chunks(os.Args[2], number(os.Args[3]), number(os.Args[4]))
	case "pieces":
		pieces(os.Args[2])
	case "upload":
		upload(os.Args[2], number(os.Args[3]))
	}
}
