package deploytest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// What cannot work says so at once, in words that name the way out, and leaves
// nothing behind.
func TestWhatCannotWork(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartDeployment(t, redistest.Cluster)
	server := redistest.Start(t)
	for name, c := range map[string]struct {
		do    func(ctx context.Context, t *testing.T) error
		is    error
		words string
	}{
		"ring": {func(ctx context.Context, t *testing.T) error {
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}})
			t.Cleanup(func() { _ = ring.Close() })
			return lockOnce(ctx, t, redishold.New(goredisconn.New(ring), nil), "a")
		}, driver.ErrRefused, "quorum.Of"},
		"database in a cluster": {func(ctx context.Context, _ *testing.T) error {
			_, err := rueidisconn.Open(ctx, cluster.URL()+"/3", nil)
			return err
		}, nil, "Valkey 9"},
		"database in a cluster, go-redis": {func(ctx context.Context, t *testing.T) error {
			conn, shut := databaseByGoRedis(cluster)
			t.Cleanup(shut)
			return lockOnce(ctx, t, redishold.New(conn, nil), "a")
		}, driver.ErrRefused, "Valkey 9"},
		"braces in a cluster": {func(ctx context.Context, t *testing.T) error {
			return lockOnce(ctx, t, onCluster(ctx, t, cluster), "order}{7")
		}, driver.ErrRefused, "cannot place"},
		"quorum of one cluster": {func(ctx context.Context, t *testing.T) error {
			q, err := quorum.Of(onCluster(ctx, t, cluster), onCluster(ctx, t, cluster), onCluster(ctx, t, cluster))
			if err != nil {
				return err
			}
			return lockOnce(ctx, t, q, "a")
		}, errors.ErrUnsupported, "a cluster is no single server"},
		"quorum of one server": {func(ctx context.Context, t *testing.T) error {
			p := place{addrs: []string{server.Addr()}}
			var members []driver.Backend
			for range 3 {
				conn, shut, err := byGoRedis(ctx, p)
				if err != nil {
					return err
				}
				t.Cleanup(shut)
				members = append(members, redishold.New(conn, nil))
			}
			q, err := quorum.Of(members...)
			if err != nil {
				return err
			}
			return lockOnce(ctx, t, q, "a")
		}, nil, "same server"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := await.Context(t, 10*time.Second)
			start := await.NewWatch(t)
			err := c.do(ctx, t)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want %v with the words %q", err, c.is, c.words)
			}
			if took := start.Took(); took > 3*time.Second {
				t.Errorf("said so after %v", took)
			}
		})
	}
	for _, s := range append(cluster.Masters(), server) {
		for _, key := range s.Keys() {
			if !strings.Contains(key, "holdfast:") {
				t.Errorf("key %q is left behind", key)
			}
		}
	}
}

func onCluster(ctx context.Context, t *testing.T, d *redistest.Deployment) *redishold.Backend {
	t.Helper()
	conn, shut, err := byURL(ctx, at(d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shut)
	return redishold.New(conn, nil)
}

func lockOnce(ctx context.Context, t *testing.T, b driver.Backend, name string) error {
	l := holdfast.New(b, nil)
	t.Cleanup(func() { _ = l.Drain(context.Background()) }) // bounded by one TTL
	k, err := l.Lock(ctx, name)
	if err == nil {
		_ = k.Unlock()
	}
	return err
}
