package redishold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// server has what the Backend knows about the server.
type server struct {
	gate   chan struct{} // lets one goroutine at a time call Conn.Server or probe; not a mutex, because no mutex may be held across I/O
	known  atomic.Pointer[ServerInfo]
	proven atomic.Pointer[[]string] // families of scripts whose probe has passed, and "replicas" if proveReplicas has passed

	mu        sync.Mutex
	last      *ServerInfo       // the properties of the server at the latest update; nil before the first update
	keyLoss   *driver.GoneError // the latest event that may have removed keys
	keyLossAt time.Time         // when that event was found
}

// keyLossFor limits how long an event that may have removed keys counts as the reason of losses.
// The time begins when the Backend finds the event, which it does when it finds the first lost
// lock. It finds the other locks that the event removed later, at their next renewal or release.
// Also, the context of the call that finds the event may end before the call returns the reason.
// The repeated call then needs the reason, too.
const keyLossFor = 10 * time.Second

// ask returns the version and the settings of the server. It keeps the result of the first call
// of Conn.Server that succeeds, and later returns this result without a call.
func (b *Backend) ask(ctx context.Context) (ServerInfo, error) {
	if info := b.server.known.Load(); info != nil {
		return *info, nil
	}
	if err := b.server.enter(ctx); err != nil {
		return ServerInfo{}, err
	}
	defer b.server.leave()
	return b.askEntered(ctx)
}

// askEntered does the same as ask, for a caller that has already entered the gate.
func (b *Backend) askEntered(ctx context.Context) (ServerInfo, error) {
	if info := b.server.known.Load(); info != nil {
		return *info, nil
	}
	info, err := b.conn.Server(ctx)
	if err != nil {
		return ServerInfo{}, wire.ClassifyLogin(err)
	}
	if evicts(info) {
		b.log.Warn("redis may evict held locks to free memory; set maxmemory-policy to noeviction",
			"maxmemory-policy", info.EvictionPolicy)
	}
	if adviser, ok := b.conn.(Adviser); ok {
		for _, a := range adviser.Advice() {
			b.log.Warn("a setting of the redis client is bad for locks", "setting", a.Setting, "is", a.Is, "better", a.Better, "why", a.Why)
		}
	}
	b.server.update(info)
	b.server.known.Store(&info)
	return info, nil
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

// passed reports whether the probe called `what` has passed. It must be fast, because it is
// called for every claim.
func (s *server) passed(what string) bool {
	proven := s.proven.Load()
	return proven != nil && slices.Contains(*proven, what)
}

// pass records that the probe called `what` has passed. The caller has entered the gate.
func (s *server) pass(what string) {
	proven := []string{what}
	if before := s.proven.Load(); before != nil {
		proven = append(proven, *before...)
	}
	s.proven.Store(&proven)
}

// update records `now`, the current state of the server. It compares `now` with the state at the
// last update, to find out whether the server may have removed keys since then.
func (s *server) update(now ServerInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last
	s.last = &now
	switch {
	case before == nil:
	case before.RunID != "" && now.RunID != "" && before.RunID != now.RunID:
		s.keyLoss = &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "the server lost its data (restarted or replaced)"}
		s.keyLossAt = time.Now()
	case evicts(now) && now.EvictedKeys > before.EvictedKeys:
		s.keyLoss = &driver.GoneError{Reason: driver.ReasonEvicted, Detail: "evicted by the server to free memory"}
		s.keyLossAt = time.Now()
	}
}

// recentKeyLoss returns the event that may have removed keys, if it was found within the last
// keyLossFor. Otherwise it returns nil.
func (s *server) recentKeyLoss() *driver.GoneError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.keyLossAt) > keyLossFor {
		return nil
	}
	return s.keyLoss
}

// channels returns the channels to which a waiter subscribes. The parameter i describes the
// server, and `name` is the name of each channel.
func channels(i ServerInfo, name string) []Channel {
	if i.Cluster && i.ShardedPS {
		return []Channel{{Name: name}, {Name: name, Sharded: true}}
	}
	return []Channel{{Name: name}}
}

// publishWith returns the publish commands for a server, without an allocation.
func (b *Backend) publishWith(info ServerInfo) []string { return b.publish[:info.wire().Publishing()] }

// wire returns the properties of the server for the internal packages.
func (i ServerInfo) wire() wire.Server {
	return wire.Server{Cluster: i.Cluster, ShardedPS: i.ShardedPS}
}

// evicts reports whether a server may evict keys to free memory.
func evicts(i ServerInfo) bool { return i.EvictionPolicy != "" && i.EvictionPolicy != "noeviction" }

// Incarnation returns the run id of the server, which is new after every start, and the uptime
// of the server by the server's wall clock. The uptime may be up to two seconds too short, but
// it is never too long. Each call sends one INFO. Package quorum uses Incarnation to find out
// whether a node may have forgotten locks.
//
// For a cluster, Incarnation returns errors.ErrUnsupported. If the user lacks the permission
// for INFO, it returns driver.ErrDenied.
func (b *Backend) Incarnation(ctx context.Context) (id string, uptime time.Duration, err error) {
	info, err := b.conn.Server(ctx)
	switch {
	case err != nil:
		return "", 0, wire.ClassifyLogin(err)
	case info.Cluster:
		return "", 0, fmt.Errorf("redis: a cluster is no single server: %w", errors.ErrUnsupported)
	case info.RunID == "":
		return "", 0, fmt.Errorf("redis: the server does not report its run id; grant the user +info: %w", driver.ErrDenied)
	}
	// The server subtracts two times that it has cut to whole seconds, so its uptime may be up
	// to a second too long.
	return info.RunID, max(0, info.Uptime-time.Second), nil
}
