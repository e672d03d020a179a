package etcdhold

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// assumeSilentFor is for how long a client counts as silent after an extra connection
	// answered and the client did not. During that time the first attempt of a renewal uses an
	// extra connection, too.
	assumeSilentFor = 30 * time.Second
	// shareFor is the age up to which an extra connection is used for further calls. If the
	// connection is older, its member may have stopped responding, too.
	shareFor = 100 * time.Millisecond
)

// requests are the methods of a client that renewals use.
type requests interface {
	clientv3.KV
	clientv3.Lease
}

// extraConns opens connections in addition to those of a client. A client has one connection
// to each member. With its default settings it notices only after many minutes that a
// connection is dead.
type extraConns struct {
	client *clientv3.Client

	mu          sync.Mutex
	silentUntil time.Time  // until then the client counts as silent
	last        *extraConn // the connection that was made last; nil if it is closed
	made        int        // how many extra connections were made so far
}

// extraConn is an extra connection. Calls that begin within shareFor share it.
type extraConn struct {
	requests
	since time.Time
	users int
	close func()
}

// renewal calls `ask` in up to three attempts: see firstAnswer. Each attempt uses the client.
// The last attempt also uses an extra connection, and so does the first attempt while the
// client counts as silent. A silent client is still used, because the extra connection may lead
// to the member that does not respond.
func renewal[T any](ctx context.Context, b *extraConns, ask func(context.Context, requests) (T, error)) (T, error) {
	own := func(ctx context.Context) (answer T, err error) {
		if answer, err = ask(ctx, b.client); err == nil {
			b.assumeSilent(0)
		}
		return answer, err
	}
	return firstAnswer(ctx, func(attempt int) []call[T] {
		last := attempt == attempts-1
		if !last && (attempt > 0 || !b.assumesSilent()) {
			return []call[T]{own}
		}
		return []call[T]{own, func(ctx context.Context) (answer T, err error) {
			c, err := b.open()
			if err != nil {
				return answer, err
			}
			defer b.leave(c)
			if answer, err = ask(ctx, c); err == nil && last {
				b.assumeSilent(assumeSilentFor)
			}
			return answer, err
		}}
	})
}

func (b *extraConns) assumesSilent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.silentUntil)
}

func (b *extraConns) assumeSilent(silent time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silentUntil = time.Now().Add(silent)
}

// open returns the extra connection that was made last, if that was less than shareFor ago.
// Else it returns a new connection to the next member. It does no I/O.
func (b *extraConns) open() (*extraConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.last; c != nil && time.Since(c.since) < shareFor {
		c.users++
		return c, nil
	}
	members := b.client.Endpoints()
	conn, err := b.client.Dial(members[b.made%len(members)])
	if err != nil {
		return nil, err
	}
	b.made++
	lease := clientv3.NewLeaseFromLeaseClient(etcdserverpb.NewLeaseClient(conn), b.client, time.Second)
	kv := clientv3.NewKVFromKVClient(etcdserverpb.NewKVClient(conn), b.client)
	b.last = &extraConn{since: time.Now(), users: 1, requests: struct {
		clientv3.KV
		clientv3.Lease
	}{kv, lease}, close: func() {
		_ = lease.Close()
		_ = conn.Close()
	}}
	return b.last, nil
}

// leave ends the use of a connection, and closes it after its last use.
func (b *extraConns) leave(c *extraConn) {
	b.mu.Lock()
	c.users--
	unused := c.users == 0
	if unused && b.last == c {
		b.last = nil
	}
	b.mu.Unlock()
	if unused {
		c.close()
	}
}
