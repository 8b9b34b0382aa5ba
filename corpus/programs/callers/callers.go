// Calls by net/rpc, Go's own, which a server answers after some time.
package main

import (
	"net"
	"net/rpc"
	"os"
	"strconv"
	"time"
)

type Pages struct{ work time.Duration }

func (p *Pages) Page(bytes int, page *[]byte) error {
	time.Sleep(p.work)
	*page = make([]byte, bytes)
	return nil
}

func main() {
	number := func(at int) int {
		value, err := strconv.Atoi(os.Args[at])
		if err != nil {
			panic(err)
		}
		return value
	}
	if os.Args[1] == "server" {
		if err := rpc.Register(&Pages{time.Duration(number(2)) * time.Millisecond}); err != nil {
			panic(err)
		}
		listener, err := net.Listen("tcp", ":5000")
		if err != nil {
			panic(err)
		}
		rpc.Accept(listener)
		return
	}
	client, err := rpc.Dial("tcp", os.Args[2]+":5000")
	if err != nil {
		panic(err)
	}
	for {
		var page []byte
		if err := client.Call("Pages.Page", number(3), &page); err != nil {
			panic(err)
		}
	}
}
