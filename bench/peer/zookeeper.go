package peer

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkhold"
)

// Root is the node below which the peers lock in ZooKeeper.
const Root = "/bench"

func holdfastZooKeeper() Spec {
	return Spec{
		Name: "holdfast-zookeeper", Client: "zk", Role: Ours, Can: []Ability{Waits, Renews, Shares, Queues, Counts, Several},
		Open: func(_ context.Context, t Target) (Peer, error) {
			backend := zkhold.New([]string{t.ZooKeeper}, &zkhold.Options{TTL: time.Duration(t.TTL), Root: Root})
			return newHoldfastOn(backend, t, backend.Close), nil
		},
	}
}

// zkLock is the recipe of the client library.
func zkLock() Spec {
	return Spec{
		Name: "zk.Lock", Client: "zk", Role: Other, Can: []Ability{Waits, Renews, Queues},
		Open: func(ctx context.Context, t Target) (Peer, error) {
			conn, events, err := zk.Connect([]string{t.ZooKeeper}, time.Duration(t.TTL), zk.WithLogInfo(false))
			if err != nil {
				return nil, err
			}
			for {
				select {
				case e := <-events:
					if e.State == zk.StateHasSession {
						return &zkPeer{conn}, nil
					}
				case <-ctx.Done():
					conn.Close()
					return nil, errors.New("ZooKeeper does not answer")
				}
			}
		},
	}
}

type zkPeer struct{ conn *zk.Conn }

// Lock cannot be given up while it waits: zk.Lock knows no context.
func (p *zkPeer) Lock(ctx context.Context, key string) (Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lock := zk.NewLock(p.conn, Root+"/"+key, zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil {
		return nil, err
	}
	return lock, nil
}

// LockFair is Lock: waiters are served in the order of their nodes.
func (p *zkPeer) LockFair(ctx context.Context, key string) (Held, error) { return p.Lock(ctx, key) }

func (p *zkPeer) Close() { p.conn.Close() }
