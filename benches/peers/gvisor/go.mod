module tcptailor/peers/gvisor

go 1.24

require (
	golang.org/x/sys v0.26.0
	gvisor.dev/gvisor v0.0.0-20250523182742-eede7a881b20
)

require (
	github.com/google/btree v1.1.2 // indirect
	golang.org/x/time v0.7.0 // indirect
)
