package redishold

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// server keeps what the engine learnt about its server.
type server struct {
	gate   chan struct{} // one question at a time; a channel, for a mutex must not be held across I/O
	known  atomic.Pointer[ServerInfo]
	proven sync.Map // of *Script: the probes that passed

	mu   sync.Mutex
	last ServerInfo // what the latest look showed, to tell an eviction from a deletion
}

// ask returns what the server is. It asks once; only a failure is asked again.
func (b *Backend) ask(ctx context.Context) (ServerInfo, error) {
	if info := b.server.known.Load(); info != nil {
		return *info, nil
	}
	if err := b.server.enter(ctx); err != nil {
		return ServerInfo{}, err
	}
	defer b.server.leave()
	return b.askAlone(ctx)
}

// askAlone is ask for a caller that has entered the gate.
func (b *Backend) askAlone(ctx context.Context) (ServerInfo, error) {
	if info := b.server.known.Load(); info != nil {
		return *info, nil
	}
	info, err := b.conn.Server(ctx)
	if err != nil {
		return ServerInfo{}, classifyLogin(err)
	}
	if info.evicts() {
		b.log.Warn("redis may evict held locks to free memory; set maxmemory-policy to noeviction",
			"maxmemory-policy", info.EvictionPolicy)
	}
	b.warnOfClient()
	b.server.look(info)
	b.server.known.Store(&info)
	return info, nil
}

// warnOfClient says what the Conn would set otherwise in its client.
func (b *Backend) warnOfClient() {
	adviser, ok := b.conn.(Adviser)
	if !ok {
		return
	}
	for _, a := range adviser.Advice() {
		b.log.Warn("a setting of the redis client is bad for locks", "setting", a.Setting, "is", a.Is, "better", a.Better, "why", a.Why)
	}
}

func (s *server) enter(ctx context.Context) error {
	select {
	case s.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) leave() { <-s.gate }

// passed reports that probe has passed.
func (s *server) passed(probe *Script) bool {
	_, ok := s.proven.Load(probe)
	return ok
}

// pass records that probe has passed.
func (s *server) pass(probe *Script) {
	s.proven.Store(probe, true)
}

// look records info and returns the one before it.
func (s *server) look(info ServerInfo) (before ServerInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.last = s.last, info
	return before
}

// evicts reports that the server may drop keys to free memory.
func (i ServerInfo) evicts() bool {
	return i.EvictionPolicy != "" && i.EvictionPolicy != "noeviction"
}

// publishWith returns the commands that wake waiters. In a cluster that knows
// sharded channels, Redisson clients may listen on either kind.
func (i ServerInfo) publishWith() []string { return publishing(i, []string{"PUBLISH", "SPUBLISH"}) }

// publishWith is info's, without a slice for each call.
func (b *Backend) publishWith(info ServerInfo) []string { return publishing(info, b.publish[:]) }

func publishing(i ServerInfo, both []string) []string {
	if i.Cluster && i.ShardedPS {
		return both
	}
	return both[:1]
}

// channels returns where waiters listen.
func (i ServerInfo) channels(name string) []Channel {
	if i.Cluster && i.ShardedPS {
		return []Channel{{Name: name}, {Name: name, Sharded: true}}
	}
	return []Channel{{Name: name, Home: i.Cluster}}
}

// tooOld reports that the server is older than Redis 6.2. A version that it does
// not tell, or that cannot be read, is taken on trust.
func (i ServerInfo) tooOld() bool {
	var major, minor int
	_, err := fmt.Sscanf(i.Version, "%d.%d", &major, &minor)
	return err == nil && (major < 6 || major == 6 && minor < 2)
}
