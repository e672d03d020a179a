package adapter

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

func TestParseInfo(t *testing.T) {
	got, _ := Server(redishold.Result{Value: "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:5f3c\r\nuptime_in_seconds:61\r\nuptime_in_days:0\r\n" +
		"# Replication\r\nrole:master\r\nconnected_slaves:2\r\n# Stats\r\nevicted_keys:7\r\n"})
	want := redishold.ServerInfo{
		Version: "7.0.15", RunID: "5f3c", Uptime: 61 * time.Second, ShardedPS: true,
		Role: "master", Replicas: 2, EvictedKeys: 7,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseInfoRecognisesClusters(t *testing.T) {
	for text, want := range map[string]bool{
		"redis_mode:cluster\r\n":                          true,
		"server_mode:cluster\r\n":                         true, // Valkey
		"cluster_enabled:1\r\n":                           true,
		"redis_mode:standalone\r\n":                       false,
		"server_mode:standalone\r\ncluster_enabled:0\r\n": false,
	} {
		if got, _ := Server(redishold.Result{Value: "redis_version:7.2.4\r\n" + text}); got.Cluster != want {
			t.Errorf("%q: got %v, want %v", text, got.Cluster, want)
		}
	}
}
