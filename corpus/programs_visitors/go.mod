module visitors

go 1.23

require (
	github.com/gorilla/websocket v1.5.3
	github.com/hashicorp/yamux v0.1.2
	github.com/valyala/fasthttp v1.46.0
)
