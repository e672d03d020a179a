package etcdhold

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// presumed is for how long a client that gave no answer is not waited for before another
	// connection is made.
	presumed = 30 * time.Second
	// fresh is how old a connection may be that another call shares. One that was made
	// earlier may have fallen silent, too.
	fresh = 100 * time.Millisecond
)

// requests is what renewals use of a client.
type requests interface {
	clientv3.KV
	clientv3.Lease
}

// besides makes connections beside those of a client. A client has one to each member, and
// with its defaults does not notice for many minutes that nothing comes over it any more.
type besides struct {
	client *clientv3.Client

	mu     sync.Mutex
	silent time.Time // until when the client is presumed to get no answers
	last   *beside   // the one made last; nil if it is closed
	made   int
}

// beside is one of these connections. Calls at about the same time share it.
type beside struct {
	requests
	since time.Time
	users int
	close func()
}

// renewal makes a call as soon does. In the last attempt, and in the first while the client
// gets no answers, the call is also made over a connection beside the client's. The client's
// are asked as well: of several members it may be the silent one that the new connection
// goes to.
func renewal[T any](ctx context.Context, b *besides, ask func(context.Context, requests) (T, error)) (T, error) {
	own := func(ctx context.Context) (answer T, err error) {
		if answer, err = ask(ctx, b.client); err == nil {
			b.presume(0)
		}
		return answer, err
	}
	return soon(ctx, func(attempt int) []call[T] {
		last := attempt == attempts-1
		if !last && (attempt > 0 || !b.presumedSilent()) {
			return []call[T]{own}
		}
		return []call[T]{own, func(ctx context.Context) (answer T, err error) {
			c, err := b.open()
			if err != nil {
				return answer, err
			}
			defer b.leave(c)
			if answer, err = ask(ctx, c); err == nil && last {
				b.presume(presumed)
			}
			return answer, err
		}}
	})
}

func (b *besides) presumedSilent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.silent)
}

func (b *besides) presume(silent time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = time.Now().Add(silent)
}

// open returns a connection, to the next member if it is a new one. It does no I/O.
func (b *besides) open() (*beside, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.last; c != nil && time.Since(c.since) < fresh {
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
	b.last = &beside{since: time.Now(), users: 1, requests: struct {
		clientv3.KV
		clientv3.Lease
	}{kv, lease}, close: func() {
		_ = lease.Close()
		_ = conn.Close()
	}}
	return b.last, nil
}

// leave closes a connection that nobody uses any more.
func (b *besides) leave(c *beside) {
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
