package shedlocktest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// TestSharedKey has ShedLock, over its provider for Redis, and ours in the layout Plain
// take one lock by turns.
func TestSharedKey(t *testing.T) {
	server := redistest.Start(t)
	conn, end, err := dial.Open(t.Context(), dial.Target{Adapter: dial.Adapters()[0], Topology: redistest.Standalone, Seeds: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	const prefix, name = "job-lock:default:", "least"
	l := holdfast.New(redishold.New(conn, &redishold.Options{Layout: redishold.Plain, KeyPrefix: prefix}), &holdfast.Options{TTL: ttl})
	t.Cleanup(func() { must.Drain(t, l) })
	p := java(t, server.URL())
	lock := must.Lock(t, l, name)
	if p.Do(peer.Command{Op: "lock", Name: name, Lease: hour}).Bool() {
		t.Fatal("they were granted what we hold")
	}
	must.Unlock(t, lock)
	if !p.Do(peer.Command{Op: "lock", Name: name, Lease: hour}).Bool() {
		t.Fatal("they were refused after our unlock")
	}
	mustRefuse(t, l, name)
	p.Do(peer.Command{Op: "unlock", Name: name})
	must.Unlock(t, must.Lock(t, l, name))
	keep(t, l, p, name, func() time.Duration {
		return time.Duration(server.Int("PTTL", prefix+name)) * time.Millisecond
	})
}
