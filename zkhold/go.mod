module github.com/holdfast-go/holdfast/zkhold

go 1.25.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/holdfast-go/holdfast v0.0.0
	go.uber.org/goleak v1.3.0
)
