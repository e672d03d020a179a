module github.com/holdfast-go/holdfast/cmd/holdfast

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/holdfast-go/holdfast/redishold/rueidisconn v0.0.0
	github.com/redis/rueidis v1.0.79
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
)
