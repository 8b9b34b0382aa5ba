module lodgers

go 1.24

require github.com/valyala/fasthttp v1.78.0
