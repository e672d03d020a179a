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

// Only the want of an answer makes connections suspect. (What then becomes of them
// is seen by TestLostMachineBehindAName in package deploytest.)
func TestSilent(t *testing.T) {
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
		if got := silent(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}

// Connections of a client with Sentinels are go-redis' business, and those of a
// cluster that of its nodes.
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
			t.Errorf("%s: looked after: %v, want %v", name, got, tt.want)
		}
		_ = tt.client.Close()
	}
}
