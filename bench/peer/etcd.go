package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/etcdhold"
)

func etcdConcurrency() Spec {
	return Spec{
		Name: "etcd", Client: "etcd", Role: Other, Can: []Ability{Waits, Queues},
		Open: func(_ context.Context, t Target) (Peer, error) {
			client, err := dialEtcd(t)
			if err != nil {
				return nil, err
			}
			return &etcdPeer{client: client, ttl: seconds(t), free: make(chan *concurrency.Session, sessions)}, nil
		},
	}
}

func dialEtcd(t Target) (*clientv3.Client, error) {
	if t.Etcd == "" {
		return nil, errors.New("there is no etcd")
	}
	return clientv3.New(clientv3.Config{Endpoints: []string{t.Etcd}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// seconds is the time of a session.
func seconds(t Target) int { return max(1, int(time.Duration(t.TTL)/time.Second)) }

func holdfastEtcd() Spec {
	return Spec{
		Name: "holdfast-etcd", Client: "etcd", Role: Ours, Can: []Ability{Waits, Renews, Shares, Queues, Counts, Several},
		Open: func(_ context.Context, t Target) (Peer, error) {
			client, err := dialEtcd(t)
			if err != nil {
				return nil, err
			}
			backend := etcdhold.New(client, &etcdhold.Options{TTL: time.Duration(t.TTL)})
			return newHoldfastOn(backend, t, func() { _ = client.Close() }), nil
		},
	}
}

// etcdSession keeps many names with one session, as a program does that never wants one
// of them twice.
func etcdSession() Spec {
	return Spec{
		Name: "etcd-one-session", Client: "etcd", Role: Other, Only: Renews, Can: []Ability{Renews},
		Open: func(_ context.Context, t Target) (Peer, error) {
			client, err := dialEtcd(t)
			if err != nil {
				return nil, err
			}
			session, err := concurrency.NewSession(client, concurrency.WithTTL(seconds(t)))
			if err != nil {
				return nil, errors.Join(err, client.Close())
			}
			return &etcdOne{client, session}, nil
		},
	}
}

type etcdOne struct {
	client  *clientv3.Client
	session *concurrency.Session
}

func (p *etcdOne) Lock(ctx context.Context, key string) (Held, error) {
	mutex := concurrency.NewMutex(p.session, "/bench/"+key)
	if err := mutex.Lock(ctx); err != nil {
		return nil, err
	}
	return etcdMutex{mutex}, nil
}

func (p *etcdOne) Close() {
	_ = p.session.Close()
	_ = p.client.Close()
}

type etcdMutex struct{ mutex *concurrency.Mutex }

// Unlock deletes the key.
func (m etcdMutex) Unlock() error { return m.mutex.Unlock(context.Background()) }

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
