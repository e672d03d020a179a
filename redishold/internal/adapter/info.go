package adapter

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// Server reads the answer to INFO. A server that refuses INFO or does not know
// it says nothing of itself, which is no error.
func Server(info redishold.Result) (redishold.ServerInfo, error) {
	var reply *redishold.ReplyError
	if errors.As(info.Err, &reply) && (strings.HasPrefix(reply.Text, "NOPERM") || strings.HasPrefix(reply.Text, "ERR unknown command")) {
		return redishold.ServerInfo{}, nil
	}
	if info.Err != nil {
		return redishold.ServerInfo{}, info.Err
	}
	text, _ := info.Value.(string)
	return parseInfo(text), nil
}

func parseInfo(text string) redishold.ServerInfo {
	var s redishold.ServerInfo
	for line := range strings.SplitSeq(text, "\n") {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		switch field {
		case "redis_version":
			s.Version = value
			s.ShardedPS = major(value) >= 7
		case "run_id":
			s.RunID = value
		case "uptime_in_seconds":
			seconds, _ := strconv.ParseInt(value, 10, 64)
			s.Uptime = time.Duration(seconds) * time.Second
		case "redis_mode", "server_mode": // the latter is Valkey's
			s.Cluster = s.Cluster || value == "cluster"
		case "cluster_enabled":
			s.Cluster = s.Cluster || value == "1"
		case "role":
			s.Role = value
		case "connected_slaves":
			s.Replicas, _ = strconv.Atoi(value)
		case "maxmemory_policy":
			s.EvictionPolicy = value
		case "evicted_keys":
			s.EvictedKeys, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return s
}

func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}
