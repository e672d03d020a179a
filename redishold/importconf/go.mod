module github.com/holdfast-go/holdfast/redishold/importconf

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/magiconair/properties v1.8.10
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
)
