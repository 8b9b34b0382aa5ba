// Servers and clients in Go for situations: static binaries with the runtime's own sockets.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

func number(r *http.Request, name string, usual int) int {
	value, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil {
		return usual
	}
	return value
}

// serve answers: /page?bytes&ms, /chunks?bytes&ms without end, and uploads read with ?bytes&ms.
func serve(port string, writeBuffer, pacing int) {
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(number(r, "ms", 0)) * time.Millisecond)
		w.Write(make([]byte, number(r, "bytes", 100)))
	})
	mux.HandleFunc("/chunks", func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, number(r, "bytes", 65536))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(time.Duration(number(r, "ms", 0)) * time.Millisecond)
		}
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, number(r, "bytes", 65536))
		for {
			if _, err := io.ReadFull(r.Body, chunk); err != nil {
				return
			}
			time.Sleep(time.Duration(number(r, "ms", 0)) * time.Millisecond)
		}
	})
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{Handler: mux, ConnState: func(c net.Conn, state http.ConnState) {
		if state != http.StateNew {
			return
		}
		tcp := c.(*net.TCPConn)
		if writeBuffer > 0 {
			tcp.SetWriteBuffer(writeBuffer)
		}
		if pacing > 0 {
			raw, _ := tcp.SyscallConn()
			raw.Control(func(fd uintptr) {
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, 47, pacing)
			})
		}
	}}
	log.Fatal(server.Serve(listener))
}

// get asks for a page again and again on one connection.
func get(url string, pause time.Duration) {
	for {
		answer, err := http.Get(url)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		time.Sleep(pause)
	}
}

// sink reads everything, from a buffer of that size where one is given.
func sink(port string, readBuffer int) {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		log.Fatal(err)
	}
	for {
		c, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		if readBuffer > 0 {
			c.(*net.TCPConn).SetReadBuffer(readBuffer)
		}
		go io.Copy(io.Discard, c)
	}
}

// pieces writes a head and a body, and waits for an answer of one byte.
func pieces(address string, nagle bool) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	c.(*net.TCPConn).SetNoDelay(!nagle)
	answer := make([]byte, 1)
	for {
		c.Write(make([]byte, 8))
		c.Write(make([]byte, 120))
		if _, err := io.ReadFull(c, answer); err != nil {
			log.Fatal(err)
		}
	}
}

// answerer answers each 128 bytes by one.
func answerer(port string) {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		log.Fatal(err)
	}
	for {
		c, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			message := make([]byte, 128)
			for {
				if _, err := io.ReadFull(c, message); err != nil {
					return
				}
				c.Write(message[:1])
			}
		}()
	}
}

// bulk writes as fast as it can.
func bulk(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	for {
		if _, err := c.Write(make([]byte, 1<<17)); err != nil {
			log.Fatal(err)
		}
	}
}

func argument(at int) int {
	if len(os.Args) <= at {
		return 0
	}
	value, err := strconv.Atoi(os.Args[at])
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	switch os.Args[1] {
	case "serve":
		serve(os.Args[2], argument(3), argument(4))
	case "get":
		get(os.Args[2], time.Duration(argument(3))*time.Millisecond)
	case "sink":
		sink(os.Args[2], argument(3))
	case "pieces":
		pieces(os.Args[2], argument(3) == 1)
	case "answerer":
		answerer(os.Args[2])
	case "bulk":
		bulk(os.Args[2])
	default:
		fmt.Println("serve, get, sink, pieces, answerer, bulk")
	}
}
