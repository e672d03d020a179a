package goredisconn

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The settings that let go-redis search for a new master for too long are named.
// (How long each takes is measured by the tests of package deploytest.)
func TestAdvice(t *testing.T) {
	sentinels := func(set func(*redis.FailoverOptions)) *redis.Client {
		o := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, MaxRetries: -1, ReadTimeout: time.Second, DialTimeout: 3 * time.Second}
		set(o)
		return redis.NewFailoverClient(o)
	}
	for _, tt := range []struct {
		name   string
		client redis.UniversalClient
		want   []string
	}{
		{"as documented", sentinels(func(*redis.FailoverOptions) {}), nil},
		{"the library's own", sentinels(func(o *redis.FailoverOptions) { o.MaxRetries, o.ReadTimeout, o.DialTimeout = 0, 0, 0 }), []string{"MaxRetries", "ReadTimeout", "DialTimeout"}},
		{"retries", sentinels(func(o *redis.FailoverOptions) { o.MaxRetries = 1 }), []string{"MaxRetries"}},
		{"slow", sentinels(func(o *redis.FailoverOptions) { o.ReadTimeout = 2 * time.Second }), []string{"ReadTimeout"}},
		{"patient forever", sentinels(func(o *redis.FailoverOptions) { o.ReadTimeout = -1 }), []string{"ReadTimeout"}},
		{"gives up before the second question", sentinels(func(o *redis.FailoverOptions) { o.DialTimeout = 2 * time.Second }), []string{"DialTimeout"}},
		{"dials for long", sentinels(func(o *redis.FailoverOptions) { o.DialTimeout = 5 * time.Second }), []string{"DialTimeout"}},
		{"one server", redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), nil},
		{"cluster", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer tt.client.Close()
			var got []string
			for _, a := range New(tt.client).Advice() {
				got = append(got, a.Setting[len("FailoverOptions."):])
				if a.Is == "" || a.Better == "" || a.Why == "" {
					t.Errorf("incomplete: %+v", a)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got advice on %q, want %q", got, tt.want)
			}
		})
	}
}
