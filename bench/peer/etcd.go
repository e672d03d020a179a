package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func etcdConcurrency() Spec {
	return Spec{
		Name: "etcd", Client: "etcd", Role: Other, Can: []Ability{Waits, Renews, Queues},
		Open: func(_ context.Context, t Target) (Peer, error) {
			if t.Etcd == "" {
				return nil, errors.New("there is no etcd")
			}
			client, err := clientv3.New(clientv3.Config{
				Endpoints: []string{t.Etcd}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
			})
			if err != nil {
				return nil, err
			}
			return &etcdPeer{
				client: client, ttl: max(1, int(time.Duration(t.TTL)/time.Second)),
				free: make(chan *concurrency.Session, sessions),
			}, nil
		},
	}
}

// sessions is how many are kept for the next lock.
const sessions = 4096

// etcdPeer gives each lock that is held or waited for a session of its own: two
// mutexes of one session and one name do not exclude each other.
type etcdPeer struct {
	client *clientv3.Client
	ttl    int // seconds
	free   chan *concurrency.Session
}

// Prepare opens the sessions, some at a time.
func (p *etcdPeer) Prepare(n int) error {
	const together = 16
	errs := make([]error, together)
	var wg sync.WaitGroup
	for i := range together {
		wg.Go(func() {
			for made := i; made < n && errs[i] == nil; made += together {
				var s *concurrency.Session
				if s, errs[i] = concurrency.NewSession(p.client, concurrency.WithTTL(p.ttl)); errs[i] == nil {
					p.keep(s)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (p *etcdPeer) session() (*concurrency.Session, error) {
	select {
	case s := <-p.free:
		return s, nil
	default:
		return concurrency.NewSession(p.client, concurrency.WithTTL(p.ttl))
	}
}

func (p *etcdPeer) Lock(ctx context.Context, key string) (Held, error) {
	session, err := p.session()
	if err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(session, "/bench/"+key)
	if err := mutex.Lock(ctx); err != nil {
		p.keep(session)
		return nil, err
	}
	return &etcdHeld{p, session, mutex}, nil
}

// LockFair is Lock: waiters are served in the order of their keys' revisions.
func (p *etcdPeer) LockFair(ctx context.Context, key string) (Held, error) { return p.Lock(ctx, key) }

func (p *etcdPeer) keep(s *concurrency.Session) {
	select {
	case p.free <- s:
	default:
		_ = s.Close()
	}
}

// Close leaves the sessions to their leases: to end a thousand one by one would
// take longer.
func (p *etcdPeer) Close() { _ = p.client.Close() }

type etcdHeld struct {
	peer    *etcdPeer
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (h *etcdHeld) Unlock() error {
	err := h.mutex.Unlock(context.Background())
	h.peer.keep(h.session)
	return err
}
