module github.com/holdfast-go/holdfast/mysqlhold

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	go.uber.org/goleak v1.3.0
)
