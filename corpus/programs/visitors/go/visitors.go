// Pages (fasthttp), WebSockets (gorilla), a stream over yamux, and a reader that sleeps.
package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/yamux"
	"github.com/valyala/fasthttp"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func dialed(to string) net.Conn {
	conn, err := net.Dial("tcp", to)
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

// A page of so many bytes.
func pages(port string, bytes int) error {
	return fasthttp.ListenAndServe(":"+port, func(ctx *fasthttp.RequestCtx) {
		ctx.SetBodyStream(io.LimitReader(zeros{}, int64(bytes)), bytes)
	})
}

// Each message comes back, or (with `pour`) messages of 64 kB without end.
func sockets(port string, pour bool) error {
	upgrader := websocket.Upgrader{}
	return http.ListenAndServe(":"+port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		message := make([]byte, 65536)
		for err == nil {
			if !pour {
				_, message, err = conn.ReadMessage()
			}
			if err == nil {
				err = conn.WriteMessage(websocket.BinaryMessage, message)
			}
		}
	}))
}

// Takes what comes, and (with `talk`) sends messages of 64 kB without end.
func takes(url string, talk bool) error {
	conn, _, err := websocket.DefaultDialer.Dial(url, nil)
	if err == nil && talk {
		go func() {
			for conn.WriteMessage(websocket.BinaryMessage, make([]byte, 65536)) == nil {
			}
		}()
	}
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
	return err
}

// One stream of yamux, as it comes.
func yamuxSends(to string) error {
	session, err := yamux.Client(dialed(to), nil)
	if err != nil {
		return err
	}
	stream, err := session.Open()
	if err == nil {
		_, err = io.Copy(stream, zeros{})
	}
	return err
}

func yamuxTakes(port string) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	session, err := yamux.Server(conn, nil)
	if err != nil {
		return err
	}
	stream, err := session.Accept()
	if err == nil {
		_, err = io.Copy(io.Discard, stream)
	}
	return err
}

// Reads so many bytes, and sleeps.
func reads(to string, bytes int, pause time.Duration) error {
	conn := dialed(to)
	_, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	piece := make([]byte, bytes)
	for err == nil {
		_, err = io.ReadFull(conn, piece)
		time.Sleep(pause)
	}
	return err
}

func main() {
	log.SetFlags(0)
	a := os.Args[2:]
	calls := map[string]func() error{
		"pages":   func() error { return pages(a[0], number(a[1])) },
		"echoes":  func() error { return sockets(a[0], false) },
		"pours":   func() error { return sockets(a[0], true) },
		"takes":   func() error { return takes(a[0], false) },
		"talks":   func() error { return takes(a[0], true) },
		"sends":   func() error { return yamuxSends(a[0]) },
		"discard": func() error { return yamuxTakes(a[0]) },
		"reads":   func() error { return reads(a[0], number(a[1]), time.Duration(number(a[2]))*time.Millisecond) },
	}
	log.Fatal(calls[os.Args[1]]())
}
