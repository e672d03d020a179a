package storestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/cutofftest"
	"github.com/holdfast-go/holdfast/internal/e2e/lossytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/silenttest"
	"github.com/holdfast-go/holdfast/internal/e2e/storecli"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/internal/rows/rowstest"
)

// The suites that run over each kind of store that is no Redis. Tests of one kind alone, and of
// its settings, are in the folder of the kind.

// ofStores runs test for kinds of stores.
func ofStores(t *testing.T, kinds []*anystore.Kind, test func(*testing.T, *anystore.Kind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// hasSessions reports whether a claim lasts as long as its client's session.
func hasSessions(k *anystore.Kind) bool { return k.New().Info().SessionTTL > 0 }

// withSessions returns the kinds of stores with sessions.
func withSessions() (kinds []*anystore.Kind) {
	for _, k := range anystore.All() {
		if hasSessions(k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// shared are the servers of tests that do not harm them.
var shared = &servers{all: map[string]*server{}}

// servers has one for each kind, which the first test starts that asks for it.
type servers struct {
	mu  sync.Mutex
	all map[string]*server
}

type server struct {
	start sync.Once
	dir   string
	store *anystore.Store
	err   error
}

// of returns the server of a kind. Where its program is missing, t is skipped, or fails if the
// environment variable CI is set.
func (s *servers) of(t *testing.T, k *anystore.Kind) *anystore.Store {
	t.Helper()
	s.mu.Lock()
	one := s.all[k.Name]
	if one == nil {
		one = &server{}
		s.all[k.Name] = one
	}
	s.mu.Unlock()
	one.start.Do(func() {
		if one.dir, one.err = os.MkdirTemp("", "holdfast"); one.err == nil {
			one.store, one.err = k.Run(one.dir)
		}
	})
	anystore.OrSkip(t, one.err)
	return one.store
}

// beside are the tests of this package. The common servers end after them.
type beside struct{ tests *testing.M }

// Run runs the tests, and returns the status of the program.
func (b beside) Run() int {
	status := b.tests.Run()
	for _, one := range shared.all {
		if one.store != nil {
			one.store.Close()
		}
		_ = os.RemoveAll(one.dir)
	}
	return status
}

// dialed returns a Backend that open opens over a server. At the end of t nothing of it runs in
// the background.
func dialed(t *testing.T, open anystore.Open, addr string, ttl time.Duration) driver.Backend {
	t.Helper()
	b, shut, err := open(addr, ttl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer shut()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if d, ok := b.(driver.Drainer); ok {
			if err := d.Drain(ctx); err != nil {
				t.Errorf("drain: %v", err)
			}
		}
	})
	return b
}

// lockerOf returns a Locker whose TTL, or that of its session, is ttl. At the end of t nothing of
// it runs in the background.
func lockerOf(t *testing.T, open anystore.Open, addr string, ttl time.Duration) *holdfast.Locker {
	t.Helper()
	b := dialed(t, open, addr, ttl)
	opts := &holdfast.Options{}
	if b.Info().SessionTTL == 0 {
		opts.TTL = ttl
	}
	l := holdfast.New(b, opts)
	t.Cleanup(func() { must.Drain(t, l) })
	return l
}

// The Locker of the short constructor has the options of its caller, also those that the store
// has to know.
func TestLockerOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		const ttl = 8 * time.Second
		addr := shared.of(t, k).Addr
		open := func(opts *holdfast.Options) *holdfast.Locker {
			l, shut, err := k.Locker(addr, opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				must.Drain(t, l)
				shut()
			})
			return l
		}
		lock := must.Lock(t, open(&holdfast.Options{TTL: ttl, Note: "the short form"}), t.Name())
		if left := lock.Remaining(); left > ttl || left < ttl/2 {
			t.Errorf("got a lease of %v, want that of the options, %v", left, ttl)
		}
		_, err := open(nil).TryLock(t.Context(), t.Name())
		var busy *holdfast.BusyError
		if !errors.As(err, &busy) || busy.Holder != "the short form" {
			t.Errorf("got %v from a Locker without options, want ErrBusy with the note of the holder", err)
		}
		must.Unlock(t, lock)
	})
}

// TestConformanceOfStores runs the whole specification. The checks of a database share a
// Backend, and so what it listens to.
func TestConformanceOfStores(t *testing.T) {
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		addr := shared.of(t, k).Addr
		suite := drivertest.Suite{TTL: time.Second, Open: func(t *testing.T) driver.Backend { return dialed(t, k.Dial, addr, 2*time.Second) }}
		if k.Database {
			b := dialed(t, k.Dial, addr, 0)
			suite.Open = func(*testing.T) driver.Backend { return b }
			t.Run("Turns", func(t *testing.T) { rowstest.Turns(t, b) })
		}
		suite.Run(t)
	})
}

// TestAdminOfStores runs the specification of consoles.
func TestAdminOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		addr := shared.of(t, k).Addr
		suite := admintest.Suite{NoRemaining: k.NoRemaining, Open: func(t *testing.T) admintest.Store {
			return dialed(t, k.Dial, addr, 20*time.Second).(admintest.Store) // as long as the claims of the suite
		}}
		if k.Database {
			b := dialed(t, k.Dial, addr, 0).(admintest.Store)
			suite.Open = func(*testing.T) admintest.Store { return b }
		}
		suite.Run(t)
	})
}

// TestCutOffOfStores cuts holders off from the server.
func TestCutOffOfStores(t *testing.T) {
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		const ttl = 3 * time.Second
		cutofftest.Store{Addr: shared.of(t, k).Addr, TTL: ttl, Open: func(t *testing.T, addr string) *holdfast.Locker {
			return lockerOf(t, k.Default, addr, ttl)
		}}.Run(t)
	})
}

// TestLostAnswersOfStores has clients contend for a lock, and for two permits where there are
// permits, while a fifth of the answers is lost.
func TestLostAnswersOfStores(t *testing.T) {
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		caps := k.New().Info().Caps
		mutex := (*holdfast.Locker).Mutex
		if caps.Fair {
			mutex = (*holdfast.Locker).FairMutex
		}
		run := func(what string, s lossytest.Store) {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				loseAnswers(t, shared.of(t, k), s)
			})
		}
		run("lock", lossytest.Store{Mutex: mutex})
		if caps.Permits {
			run("permits", lossytest.Store{Permits: 2})
		}
	})
}

// loseAnswers runs s over a server.
func loseAnswers(t *testing.T, server *anystore.Store, s lossytest.Store) {
	t.Helper()
	losses := server.Lossy()
	s.TTL, s.Late = 3*time.Second, server.Late
	if hasSessions(server.Kind) {
		s.TTL += time.Second
	}
	s.Plain = !server.New().Info().Caps.Fencing
	s.Open = func(t *testing.T) driver.Backend { return dialed(t, losses.Open, server.Addr, s.TTL) }
	s.Lost, s.Heal = losses.Lost, losses.Heal
	if server.Kept != nil {
		s.Left = keptBy(server)
	}
	s.Run(t)
}

// keptBy returns how many entries a server keeps for a name, -1 if that cannot be known now.
func keptBy(server *anystore.Store) func(*testing.T, string) int {
	return func(t *testing.T, name string) int {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		n, err := server.Kept(ctx, name)
		if err != nil {
			t.Logf("entries of %s: %v", name, err)
			return -1
		}
		return n
	}
}

// TestSilentConnectionsOfStores has every connection of a client forgotten that has the
// defaults of its library.
func TestSilentConnectionsOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		silenttest.Store{Addr: shared.of(t, k).Addr, TTL: k.Silences, Open: func(t *testing.T, addr string, ttl time.Duration) driver.Backend {
			return dialed(t, k.Default, addr, ttl)
		}}.Run(t)
	})
}

// sessionTTL is that of sessions in which waiters give up.
const sessionTTL = 2 * time.Second

// sessions is what sessiontest needs of the common server.
func sessions(t *testing.T, k *anystore.Kind) sessiontest.Store {
	server := shared.of(t, k)
	return sessiontest.Store{
		At: k.Name + " " + server.Addr, TTL: sessionTTL, Late: k.Late,
		Open: func(t *testing.T, ttl time.Duration) sessiontest.Backend {
			return dialed(t, k.Default, server.Addr, ttl).(sessiontest.Backend)
		},
		Left: keptBy(server),
	}
}

// kindAt returns the kind and the address that a text of openLoad or openSession names.
func kindAt(at string) (k *anystore.Kind, addr string, err error) {
	name, addr, found := strings.Cut(at, " ")
	if !found {
		return nil, "", fmt.Errorf("no address in %q", at)
	}
	k, err = anystore.Named(name)
	return k, addr, err
}

// openSession opens a client for a program of sessiontest. at is a kind and an address.
func openSession(at string) (driver.Backend, error) {
	k, addr, err := kindAt(at)
	if err != nil {
		return nil, err
	}
	b, _, err := k.Default(addr, sessionTTL)
	return b, err
}

func TestWaitersGiveUpOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, withSessions(), func(t *testing.T, k *anystore.Kind) { sessions(t, k).WaitersGiveUp(t) })
}

func TestGoneWaitersOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, withSessions(), func(t *testing.T, k *anystore.Kind) { sessions(t, k).GoneWaiters(t) })
}

func TestForceUnlockIsNotifiedOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, withSessions(), func(t *testing.T, k *anystore.Kind) { sessions(t, k).ForceUnlockIsNotified(t) })
}

// The command line tool, built and run as users do.
func TestCLIOfStores(t *testing.T) {
	t.Parallel()
	ofStores(t, anystore.All(), func(t *testing.T, k *anystore.Kind) {
		if k.URL == nil {
			t.Skip("the command does not open it")
		}
		info := k.New().Info()
		storecli.New(t, storecli.Store{
			Network: "tcp", Addr: k.Start(t).Addr, Name: k.Command, Backend: info.Name, URL: k.URL,
			Shown:     storecli.Shown{Queue: true, Nameless: k.Database, Rest: !k.NoRemaining, ReadWrite: info.Caps.Shared, Granted: k.Database},
			NoAtLeast: !info.Caps.AtLeast,
		}).Run(t)
	})
}
