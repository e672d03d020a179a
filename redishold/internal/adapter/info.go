package adapter

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Server returns the ServerInfo in the reply to INFO. If the server refuses INFO, or does not
// know INFO, Server returns the zero ServerInfo and no error.
func Server(info redishold.Result) (redishold.ServerInfo, error) {
	if info.Err != nil && !wire.Means(info.Err, wire.MeansNoRight, wire.MeansNoCommand) {
		return redishold.ServerInfo{}, info.Err
	}
	text, _ := info.Value.(string) // "" after a refusal
	fields := wire.Fields(text, "\n", ":")
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(fields[field], 10, 64)
		return n
	}
	major, _, _ := strings.Cut(fields["redis_version"], ".")
	version, _ := strconv.Atoi(major)
	return redishold.ServerInfo{
		Version:        fields["redis_version"],
		RunID:          fields["run_id"],
		Uptime:         time.Duration(number("uptime_in_seconds")) * time.Second,
		Cluster:        fields["cluster_enabled"] == "1" || fields["redis_mode"] == "cluster" || fields["server_mode"] == "cluster", // server_mode is Valkey's name for redis_mode
		ShardedPS:      version >= 7,
		Role:           fields["role"],
		Replicas:       int(number("connected_slaves")),
		EvictionPolicy: fields["maxmemory_policy"],
		EvictedKeys:    number("evicted_keys"),
	}, nil
}
