package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memhold"
)

func open(t *testing.T) driver.Backend {
	t.Helper()
	var members []driver.Backend
	for range 5 {
		members = append(members, memhold.New())
	}
	return must(t, members, nil)
}

// The TTL is long because in real time a machine may be busy for half of it.
func TestConformance(t *testing.T) { drivertest.Suite{Open: open, TTL: time.Second}.Run(t) }

// TestConformanceSynctest also fails if a goroutine is left behind.
func TestConformanceSynctest(t *testing.T) {
	drivertest.Suite{Open: open, Synctest: true}.Run(t)
}

func TestNewRefuses(t *testing.T) {
	a, b := memhold.New(), memhold.New()
	var none *memhold.Backend
	for want, backends := range map[string][]driver.Backend{
		"no backends":                 nil,
		"2 backends":                  {a, b},
		"backend 2 is nil":            {a, nil, b},
		"backend 3 is nil":            {a, b, none},
		"backends 1 and 3 are the":    {a, b, a},
		"does not end a lock":         {a, b, eternal{memhold.New()}},
		"keeps locks in sessions":     {a, b, bounds{memhold.New(), driver.Info{Caps: driver.Caps{ExpiresAlone: true}, SessionTTL: time.Minute}}},
		"4 backends: an even number ": {a, b, memhold.New(), memhold.New()},
	} {
		if _, err := Of(backends...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := New([]driver.Backend{a}, &Options{MaxTTL: -1}); err == nil {
		t.Error("negative MaxTTL: got no error")
	}
	if _, err := New([]driver.Backend{a}, &Options{MaxTTL: 1<<63 - 1}); err == nil {
		t.Error("a MaxTTL that overflows with the drift of clocks: got no error")
	}
}

type eternal struct{ *memhold.Backend }

func (eternal) Info() driver.Info { return driver.Info{Name: "eternal"} }

// bounds is a store with limits.
type bounds struct {
	*memhold.Backend
	info driver.Info
}

func (b bounds) Info() driver.Info { return b.info }

func TestInfoIsWhatAllMembersCan(t *testing.T) {
	with := func(info driver.Info) driver.Backend {
		info.Caps.ExpiresAlone = true
		return bounds{memhold.New(), info}
	}
	all := driver.Caps{Shared: true, Permits: true, Fair: true, Fencing: true, Wakes: true, Counts: true, Tombstones: true, AtLeast: true}
	b := must(t, []driver.Backend{
		with(driver.Info{Caps: all, MinTTL: time.Second, MaxTTL: 40 * time.Second, MaxName: 100}),
		with(driver.Info{Caps: all, MinTTL: 2 * time.Second, MaxName: 50, TTLStep: time.Second}),
		with(driver.Info{Caps: all}),
	}, nil)
	want := driver.Info{
		Name: "quorum", Caps: driver.Caps{Wakes: true, ExpiresAlone: true, Tombstones: true},
		MinTTL: 2 * time.Second, MaxTTL: 40 * time.Second, TTLStep: time.Second, MaxName: 50,
	}
	if got := b.Info(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if must(t, []driver.Backend{with(driver.Info{Caps: all}), with(driver.Info{Caps: all}), with(driver.Info{})}, nil).Info().Caps.Tombstones {
		t.Error("one member has no tombstones: the quorum says that it has")
	}
	if _, err := b.Try(t.Context(), driver.Claim{Name: "job", Owner: "a", TTL: time.Minute}); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a lease above MaxTTL: got %v, want ErrRefused", err)
	}
}

// texts is a store with its own text for each holder.
type texts struct {
	*memhold.Backend
	name, text string
}

func (s texts) Info() driver.Info {
	info := s.Backend.Info()
	info.Name = s.name
	return info
}

func (s texts) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	o, err := s.Backend.Try(ctx, c)
	if !o.Granted {
		o.Holder = s.text
	}
	return o, err
}

// If one claim has a majority, a waiter sleeps, also if the members name its holder
// differently or not at all. Otherwise it would ask all of them a hundred times a second.
func TestHolderOfManyNames(t *testing.T) {
	for name, members := range map[string][3]texts{
		"no names":           {{name: "rows"}, {name: "rows"}, {name: "rows"}},
		"one has names":      {{name: "rows"}, {name: "rows"}, {name: "redis", text: "a"}},
		"names of their own": {{name: "rows", text: "p1"}, {name: "other", text: "a:1"}, {name: "redis", text: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var backends []driver.Backend
				for _, m := range members {
					m.Backend = memhold.New()
					backends = append(backends, m)
				}
				b := must(t, backends, nil)
				a := driver.Claim{Name: "job", Client: "a", Owner: "a:1", Seq: 1, TTL: ttl, Count: 1, Tokens: 1}
				c := driver.Claim{Name: "job", Client: "c", Owner: "c:1", Seq: 1, TTL: ttl, Count: 1, Tokens: 1}
				if out, err := b.Try(t.Context(), a); err != nil || !out.Granted {
					t.Fatalf("%+v, %v", out, err)
				}
				synctest.Wait()
				if out, err := b.Try(t.Context(), c); err != nil || out.Granted || out.RetryAfter != ttl {
					t.Errorf("got %+v, %v, want a refusal until the lease ends", out, err)
				}
				if err := b.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestExclusionWithAMinorityDown(t *testing.T) {
	for name, fault := range map[string]func(*member){
		"black hole": hole, "replies lost": deaf, "panics": panics, "slow": slow,
		"refused": func(m *member) { m.refuse = driver.ErrNotExecuted },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 5)
				other := c.other()
				c.change(fault, 1, 3)
				for range 20 {
					a, b := c.claim(), c.claim()
					out := c.mustGrant(c.Backend, a)
					if most := ttl - drift(ttl); out.ValidFor > most || out.ValidFor < ttl-time.Second {
						t.Fatalf("got ValidFor %v, want at most %v", out.ValidFor, most)
					}
					if busy := c.mustRefuse(other, b); busy.Holder != a.Note || busy.RetryAfter <= 0 || busy.RetryAfter > ttl {
						t.Fatalf("got %+v, want busy, held by %q", busy, a.Note)
					}
					synctest.Wait() // a vote for b that came too late is released in the background
					c.mustRenew(c.Backend, a)
					c.mustRelease(c.Backend, a)
					if err := c.Release(t.Context(), a); !errors.Is(err, driver.ErrGone) {
						t.Fatalf("second Release: got %v, want ErrGone", err)
					}
				}
				c.mustGrant(other, c.claim())
				c.change(healed)
			})
		})
	}
}

func TestMajorityDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.change(hole, 0, 2, 4)
		a := c.claim()
		err := c.mustFail(c.Backend, a, nil)
		for _, want := range []string{"node 1 of 5 (memory)", "node 3 of 5", "node 5 of 5"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want it to name %s", err, want)
			}
		}
		if strings.Contains(err.Error(), "node 2 of 5") {
			t.Errorf("got %q, which names a healthy node", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errNoAnswer) || errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("got %v, want the nodes' errors", err)
		}
		// The caller gives up, as the core does, and the nodes that come back are free.
		a.Indeterminate = true
		if err := c.Release(t.Context(), a); err == nil || errors.Is(err, driver.ErrGone) {
			t.Errorf("Release: got %v, want an unknown outcome", err)
		}
		c.change(healed)
		c.drain(c.Backend)
		c.wantHolders(0)
		if err := c.Release(t.Context(), a); err != nil {
			t.Errorf("Release repeated: got %v, want nil", err)
		}
		if _, err := c.Try(t.Context(), a); !errors.Is(err, driver.ErrGone) {
			t.Errorf("late Try: got %v, want ErrGone", err)
		}
	})
}

func TestNothingSentIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		refused := fmt.Errorf("%w: connection refused", driver.ErrNotExecuted)
		c.change(func(m *member) { m.latency, m.refuse = 0, refused })
		// Two of three decide, so the try at the third may be under way: that is not
		// certain.
		if err := c.mustFail(c.Backend, c.claim(), nil); !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v, want the cause", err)
		}
		synctest.Wait()
		c.change(func(m *member) { m.refuse = fmt.Errorf("%w: no such user", driver.ErrRefused) })
		_ = c.mustFail(c.Backend, c.claim(), driver.ErrRefused)
		synctest.Wait()
		c.change(healed, 0, 1)
		c.mustGrant(c.Backend, c.claim())
	})
}

func TestOneNodesWordsAreNotTheQuorums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.members[0].change(func(m *member) { m.refuse = driver.ErrRefused })
		c.members[1].change(func(m *member) { m.refuse = &driver.GoneError{} })
		err := c.mustFail(c.Backend, c.claim(), nil)
		var gone *driver.GoneError
		if errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrGone) || errors.As(err, &gone) {
			t.Errorf("got %v, which speaks for the claim", err)
		}
	})
}

func TestLosersGiveBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		holder, loser := c.claim(), c.claim()
		// One claim holds three nodes, and two are free.
		c.holdAt(holder, 0, 1, 2)
		time.Sleep(time.Second)
		start := time.Now()
		out := c.mustRefuse(c.Backend, loser)
		if took := time.Since(start); took != 0 {
			t.Errorf("the refusal took %v, want no time", took)
		}
		if out.Holder != holder.Note || out.HeldFor != time.Second || out.RetryAfter != ttl-time.Second {
			t.Errorf("got %+v, want the majority's holder and its lease", out)
		}
		synctest.Wait()
		c.wantHolders(3)
		if len(c.open) != 0 {
			t.Errorf("%d attempts are kept, want none", len(c.open))
		}
	})
}

func TestLateGrantAfterRefusalIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		holder := c.claim()
		c.holdAt(holder, 0, 1)
		for i, latency := range []time.Duration{time.Millisecond, time.Millisecond, 100 * time.Millisecond} { // the third has not answered when the others decide
			c.members[i].change(func(m *member) { m.latency = latency })
		}
		c.mustRefuse(c.Backend, c.claim())
		time.Sleep(60 * time.Millisecond) // the request has arrived and was granted
		c.wantHolders(3)
		c.drain(c.Backend)
		c.wantHolders(2)
	})
}

func TestGrantWithoutReplyIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		holder, loser := c.claim(), c.claim()
		c.holdAt(holder, 0)
		c.members[1].change(deaf)
		c.mustRefuse(c.Backend, loser)
		time.Sleep(time.Second)
		c.members[1].change(healed)
		c.drain(c.Backend)
		c.wantHolders(1)
		// The same claim comes again, as another attempt.
		c.mustGrant(c.Backend, loser)
	})
}

func TestSplitVotesAreResolved(t *testing.T) {
	for _, competitors := range []int{2, 3, 10} {
		t.Run(fmt.Sprint(competitors), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 5)
				for i, m := range c.members { // each order of arrival is different at each node
					m.change(func(m *member) { m.latency = time.Duration(1+i%3) * time.Millisecond })
				}
				var mu sync.Mutex
				var wg sync.WaitGroup
				inside, entered := 0, 0
				start := time.Now()
				for range competitors {
					locker := holdfast.New(c.other(), nil)
					wg.Go(func() {
						for range 5 {
							lock, err := locker.Lock(t.Context(), "job")
							if err != nil {
								t.Error(err)
								return
							}
							mu.Lock()
							if inside++; inside != 1 {
								t.Errorf("%d holders", inside)
							}
							entered++
							mu.Unlock()
							time.Sleep(time.Millisecond)
							mu.Lock()
							inside--
							mu.Unlock()
							if err := lock.Unlock(); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				if want := 5 * competitors; entered != want {
					t.Errorf("got %d entries, want %d", entered, want)
				}
				if took, most := time.Since(start), time.Duration(competitors)*3*time.Second; took > most {
					t.Errorf("took %v, want at most %v", took, most)
				}
			})
		})
	}
}

func TestCallsReturnAtQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.change(func(m *member) { m.latency = 10 * time.Millisecond })
		c.members[1].change(hole)
		for round := range 3 {
			a := c.claim()
			for _, step := range []struct {
				name string
				call func()
			}{
				{"Try", func() { c.mustGrant(c.Backend, a) }},
				{"Renew", func() { c.mustRenew(c.Backend, a) }},
				{"Release", func() { c.mustRelease(c.Backend, a) }},
			} {
				start := time.Now()
				step.call()
				if took := time.Since(start); took != 10*time.Millisecond {
					t.Errorf("round %d: %s took %v, want one round trip of 10ms", round, step.name, took)
				}
			}
		}
		c.drain(c.Backend)
	})
}

func TestSlowNodeIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		holder := c.claim()
		c.holdAt(holder, 0)
		c.members[2].change(hole)
		// One node grants, one refuses, one does not answer: at first it is waited for.
		for round, want := range []time.Duration{250 * time.Millisecond, 250 * time.Millisecond / 8, 250 * time.Millisecond / 8} {
			start := time.Now()
			out := c.mustRefuse(c.Backend, c.claim())
			took := time.Since(start)
			synctest.Wait() // the vote is released
			if took != want {
				t.Errorf("round %d took %v, want %v", round, took, want)
			}
			if out.RetryAfter <= 0 || out.RetryAfter > time.Second {
				t.Errorf("got RetryAfter %v, want a short random one", out.RetryAfter)
			}
		}
		c.members[2].change(healed)
		c.drain(c.Backend)
		c.mustGrant(c.Backend, c.claim())
	})
}

func TestContextEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.change(hole, 0, 2)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		start := time.Now()
		a := c.claim()
		_, err := c.Try(ctx, a)
		if took := time.Since(start); !errors.Is(err, context.Canceled) || took != 5*time.Millisecond {
			t.Errorf("got %v after %v, want context.Canceled after 5ms", err, took)
		}
		c.change(healed)
		c.mustGrant(c.Backend, a) // the same claim again
		c.mustRelease(c.Backend, a)
		c.drain(c.Backend)
		c.wantHolders(0)
	})
}

// TestReleaseOfATryThatNeverArrived shows that a node has not lost a claim if its try never
// arrived.
func TestReleaseOfATryThatNeverArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.change(hole, 0, 1)
		a := c.claim()
		c.mustGrant(c.Backend, a)
		time.Sleep(time.Second) // the tries at nodes that do not answer end
		c.change(healed, 0, 1)
		c.change(func(m *member) { m.latency = 20 * time.Millisecond }, 2, 3)
		c.mustRelease(c.Backend, a)
	})
}

func TestLateMajorityIsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.change(func(m *member) { m.latency = 9 * time.Millisecond })
		a := c.claim()
		a.TTL = 11 * time.Millisecond // 8.89 ms of it are left without the drift
		_ = c.mustFail(c.Backend, a, nil)
		a.TTL = ttl
		c.mustGrant(c.Backend, a)
	})
}

func TestMemoryReturnsToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for i := range 300 {
			a := c.claim()
			a.Name = fmt.Sprint("job", i)
			c.mustGrant(c.Backend, a)
			switch i % 3 {
			case 0:
				c.mustRelease(c.Backend, a)
			case 1:
				a.Indeterminate = true
				c.mustRelease(c.Backend, a)
			}
		}
		if len(c.open) != 100 || len(c.ended) != 100 {
			t.Fatalf("got %d attempts and %d marks, want 100 each", len(c.open), len(c.ended))
		}
		time.Sleep(ttl + 2*drift(ttl))
		for range 300 {
			a := c.claim()
			c.mustGrant(c.Backend, a)
			c.mustRelease(c.Backend, a)
			synctest.Wait() // a release returns with a majority: two nodes may still have the claims of two rounds
		}
		if len(c.open) != 0 || len(c.ended) != 0 {
			t.Errorf("got %d attempts and %d marks, want none", len(c.open), len(c.ended))
		}
	})
}
