package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// What can be wrong with a worker on purpose, to see that the judge finds it.
const (
	deaf     = "deaf"     // a waiter gets no message, for 6 s
	lazy     = "lazy"     // nothing is renewed
	generous = "generous" // what is held is granted, now and then
	untidy   = "untidy"   // what was not granted is not cleaned up
	stuck    = "stuck"    // tokens repeat
	mute     = "mute"     // nobody is notified after a quiet release
)

// mutant is a store that does one thing wrong.
type mutant struct {
	driver.Backend
	mistake string

	mu      sync.Mutex
	granted map[string]bool // owners
}

// mutated returns b, with a mistake if there is to be one.
func mutated(b driver.Backend, mistake string) driver.Backend {
	switch mistake {
	case "":
		return b
	case mute:
		return muted{b.(*redishold.Backend)}
	}
	return &mutant{Backend: b, mistake: mistake, granted: map[string]bool{}}
}

// muted is a store that notifies nobody after quiet releases.
type muted struct{ *redishold.Backend }

func (muted) Wake(context.Context, driver.Claim) error { return nil }

func (m *mutant) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	out, err := m.Backend.Try(ctx, c)
	if m.mistake == generous && err == nil && !out.Granted && rand.N(10) == 0 {
		out = driver.Outcome{Granted: true, Token: rand.Uint64N(1 << 50), ValidFor: c.TTL}
	}
	if m.mistake == stuck {
		out.Token = min(out.Token, 7)
	}
	if out.Granted {
		m.mu.Lock()
		m.granted[c.Owner] = true
		m.mu.Unlock()
	}
	return out, err
}

func (m *mutant) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if m.mistake != lazy {
		return m.Backend.Renew(ctx, cs)
	}
	all := make([]driver.Renewal, len(cs))
	for i, c := range cs {
		all[i].ValidFor = c.TTL
	}
	return all, nil
}

func (m *mutant) Release(ctx context.Context, c driver.Claim) error {
	m.mu.Lock()
	known := m.granted[c.Owner]
	delete(m.granted, c.Owner)
	m.mu.Unlock()
	if m.mistake == untidy && !known {
		return nil
	}
	return m.Backend.Release(ctx, c)
}

func (m *mutant) Waiter(c driver.Claim) driver.Waiter {
	w := m.Backend.Waiter(c)
	if m.mistake == deaf {
		return sleeper{w}
	}
	return w
}

// sleeper is a Waiter that hears nothing.
type sleeper struct{ driver.Waiter }

func (sleeper) Wait(context.Context, driver.Outcome) (driver.Outcome, error) {
	time.Sleep(6 * time.Second)
	return driver.Outcome{}, nil
}
