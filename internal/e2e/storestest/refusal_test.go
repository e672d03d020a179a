package storestest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// A store refuses for a while: all candidates and a waiter go on, and say why they wait. After
// the repair one of the candidates leads, and the waiter gets its lock.
func TestRefusalOfSeconds(t *testing.T) {
	await.NotShort(t, "waits for leases to end")
	run := func(store string, r anystore.Refusal) {
		t.Run(store+", "+r.What, func(t *testing.T) {
			t.Parallel()
			testRefusal(t, r.Start(t, refusedTTL))
		})
	}
	for _, r := range refusalsOfRedis() {
		run("redis", r)
	}
	for _, k := range anystore.All() {
		for _, r := range k.Refusals {
			run(k.Name, r)
		}
	}
}

const refusedTTL = 3 * time.Second

func testRefusal(t *testing.T, s anystore.Refusing) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	const candidates = 2
	logs, terms := make([]refusals, candidates), make(chan uint64, 100)
	for i := range candidates {
		logs[i] = make(refusals, 1000)
		l := holdfast.New(s.Open(), &holdfast.Options{TTL: refusedTTL})
		e := elect.New(l.Mutex("leader"))
		e.Logger = slog.New(logs[i])
		running.Go(func() {
			err := e.Run(ctx, func(term context.Context, lock *holdfast.Lock) error {
				terms <- lock.Token()
				<-term.Done()
				return nil
			})
			if ctx.Err() == nil {
				t.Errorf("candidate %d ended: %v", i, err)
			}
			must.Drain(t, l)
		})
	}
	first := receive(t, terms, "a first term")

	holder := holdfast.New(s.Open(), &holdfast.Options{TTL: refusedTTL})
	held := must.Lock(t, holder, "job")
	defer must.Drain(t, holder)
	waits, refused, got := make(chan struct{}, 1), make(chan error, 1000), make(chan error, 1)
	waiting := holdfast.New(s.Open(), &holdfast.Options{TTL: refusedTTL, Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventWait {
			waits <- struct{}{}
		}
	}})
	running.Go(func() {
		lock, err := waiting.Lock(ctx, "job", holdfast.RetryRefused(func(err error, _ time.Duration) { refused <- err }))
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
		must.Drain(t, waiting)
	})
	receive(t, waits, "the waiter waits")

	s.Refuse()
	receive(t, held.Context(t.Context()).Done(), "the holder loses its lock")
	receive(t, refused, "the waiter is refused")
	for i, log := range logs {
		receive(t, log, fmt.Sprintf("candidate %d says that it is refused", i))
	}
	s.Repair()
	if second := receive(t, terms, "a term after the repair"); second <= first {
		t.Errorf("got token %d after %d", second, first)
	}
	if err := receive(t, got, "the waiter's lock"); err != nil {
		t.Errorf("the waiter: %v", err)
	}
}

// refusals is the Handler of a Logger, and gets a value for each line that says so.
type refusals chan struct{}

func (r refusals) Enabled(context.Context, slog.Level) bool { return true }
func (r refusals) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r refusals) WithGroup(string) slog.Handler            { return r }

func (r refusals) Handle(_ context.Context, line slog.Record) error {
	if line.Message == "the store refuses the campaign, asking again" {
		r <- struct{}{}
	}
	return nil
}

// receive returns the next value of a channel, also the zero value of a closed one.
func receive[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
	return v
}

func refusalsOfRedis() []anystore.Refusal {
	return []anystore.Refusal{
		{What: "no permission", Start: redisRefuses([]string{"ACL", "SETUSER", "app", "-evalsha", "-eval"}, []string{"ACL", "SETUSER", "app", "+@all"})},
		{What: "password changed", Start: redisRefuses([]string{"ACL", "SETUSER", "app", "resetpass", ">other"}, []string{"ACL", "SETUSER", "app", "resetpass", ">secret"})},
	}
}

// redisRefuses executes a command that has the server refuse the user app, and one that has it let
// the user in again.
func redisRefuses(refuse, repair []string) func(*testing.T, time.Duration) anystore.Refusing {
	return func(t *testing.T, _ time.Duration) anystore.Refusing {
		server := redistest.Start(t)
		server.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
		return anystore.Refusing{
			Open: func() driver.Backend {
				conn, err := rueidisconn.Open(t.Context(), "redis://app:secret@"+server.Addr(), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(conn.Close)
				return redishold.New(conn, nil)
			},
			Refuse: func() {
				server.Do(refuse...)
				server.Do("CLIENT", "KILL", "USER", "app")
			},
			Repair: func() { server.Do(repair...) },
		}
	}
}
