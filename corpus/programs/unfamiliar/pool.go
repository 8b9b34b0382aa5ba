// Twenty workers ask over a pool of so many connections: pool URL CONNECTIONS
package main

import (
	"io"
	"net/http"
	"os"
	"strconv"
)

func main() {
	most, _ := strconv.Atoi(os.Args[2])
	client := http.Client{Transport: &http.Transport{MaxConnsPerHost: most, MaxIdleConnsPerHost: most}}
	for range 20 {
		go func() {
			for {
				response, err := client.Get(os.Args[1])
				if err == nil {
					io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			}
		}()
	}
	select {}
}
