module github.com/holdfast-go/holdfast/redishold/rueidisconn

go 1.25.0

require github.com/holdfast-go/holdfast v0.0.0
