package goredisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
)

// Only a missing reply is a reason to ping connections. (TestLostMachineBehindAName in
// package deploytest shows the effect of the PINGs.)
func TestTimedOut(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{context.DeadlineExceeded, true},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), true},
		{context.Canceled, false},
		{io.EOF, false},
		{errors.New("anything"), false},
		{&redishold.ReplyError{Text: "BUSY"}, false},
	} {
		if got := timedOut(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}

// The idle connections of a client with Sentinels or of a cluster client get no PING:
// go-redis closes them after a failover.
func TestIdleConnectionsOfOneServerOnly(t *testing.T) {
	for name, tt := range map[string]struct {
		client redis.UniversalClient
		want   bool
	}{
		"one server": {redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), true},
		"Sentinels":  {redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}), false},
		"cluster":    {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), false},
	} {
		if got := newIdle(tt.client).pool != nil; got != tt.want {
			t.Errorf("%s: gets PINGs: %v, want %v", name, got, tt.want)
		}
		_ = tt.client.Close()
	}
}
