// pages PORT BYTES THINK_MS SNDBUF: Go's net/http, a page of so many bytes on any path.
package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func number(at int) int64 {
	value, err := strconv.ParseInt(os.Args[at], 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	bytes, think, buffer := number(2), number(3), int(number(4))
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Duration(think) * time.Millisecond)
		w.Header().Set("Content-Length", strconv.FormatInt(bytes, 10))
		io.Copy(w, io.LimitReader(zeros{}, bytes))
	})
	server := http.Server{Addr: ":" + os.Args[1], ConnContext: func(c context.Context, conn net.Conn) context.Context {
		if buffer > 0 {
			conn.(*net.TCPConn).SetWriteBuffer(buffer)
		}
		return c
	}}
	panic(server.ListenAndServe())
}
