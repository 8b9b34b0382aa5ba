// Pages with fasthttp: `serve PORT`, whose path is the number of bytes, or `get URL PAUSE` on one connection.
package main

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const page = `<script>(async () => { const got = await fetch("/8000000000", {cache: "no-store"});
const reader = got.body.getReader(); while (!(await reader.read()).done) {} })()</script>`

func serve(ctx *fasthttp.RequestCtx) {
	bytes, err := strconv.ParseInt(string(ctx.Path())[1:], 10, 64)
	if err != nil {
		ctx.SetContentType("text/html")
		ctx.WriteString(page)
		return
	}
	ctx.SetBodyStreamWriter(func(out *bufio.Writer) {
		block := make([]byte, 65536)
		for left := bytes; left > 0; left -= 65536 {
			if _, err := out.Write(block[:min(left, 65536)]); err != nil {
				return
			}
		}
	})
}

func main() {
	if os.Args[1] == "serve" {
		panic(fasthttp.ListenAndServe(":"+os.Args[2], serve))
	}
	pause, _ := time.ParseDuration(os.Args[3])
	client := &fasthttp.Client{MaxConnsPerHost: 1, StreamResponseBody: true}
	for {
		request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		request.SetRequestURI(os.Args[2])
		if client.Do(request, response) == nil {
			if body := response.BodyStream(); body != nil {
				io.Copy(io.Discard, body)
				response.CloseBodyStream()
			}
		}
		fasthttp.ReleaseResponse(response)
		time.Sleep(pause)
	}
}
