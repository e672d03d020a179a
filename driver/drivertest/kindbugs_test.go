package drivertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/uuid"
)

// changed returns a plant that changes the claims of every try.
func changed(f func(m *mutant, c *driver.Claim)) func(*mutant) {
	return func(m *mutant) {
		m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			f(m, &c)
			return m.Backend.Try(ctx, c)
		}
	}
}

// neverWakes plants waits that end only with their context.
func neverWakes(m *mutant) {
	m.wait = func(ctx context.Context, _ driver.Claim, _ driver.Outcome) error {
		<-ctx.Done()
		return ctx.Err()
	}
}

func sharedBugs() []bug {
	return []bug{
		{"takes readers for writers", []string{"Shared/ReadersOverlap", "Shared/ReadersExcludeWriters", "Shared/ReaderIsGrantedBesideItsWriter"}, changed(func(_ *mutant, c *driver.Claim) {
			c.Mode = driver.Exclusive
		})},
		{"takes writers for readers", []string{"Shared/WriterExcludesReaders", "Shared/ReadersExcludeWriters", "Shared/ReadersAndWritersUnderContention"}, changed(func(_ *mutant, c *driver.Claim) {
			c.Mode = driver.Shared
		})},
		{"keeps dead readers", []string{"Shared/ReadersExpireOneByOne"}, changed(func(_ *mutant, c *driver.Claim) {
			if c.Mode == driver.Shared {
				c.TTL = time.Hour
			}
		})},
		{"keeps dead readers while others live", []string{"Shared/ReadersExpireOneByOne"}, func(m *mutant) {
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				hs := m.holds(ctx, c.Name)
				for _, h := range hs {
					m.rightRenew(ctx, driver.Claim{Name: c.Name, Owner: h.Owner, TTL: c.TTL})
				}
				return m.rightRenew(ctx, c)
			}
		}},
		{"grants readers beside any writer", []string{"Shared/ReaderIsGrantedBesideItsWriter"}, changed(func(m *mutant, c *driver.Claim) {
			if c.Beside != "" {
				c.Beside = m.asHolder(context.Background(), *c).Owner
			}
		})},
		{"grants no readers beside a writer", []string{"Shared/ReaderIsGrantedBesideItsWriter", "Shared/WriterOutlivesReaderBesideIt", "Shared/DowngradeWakesReaders"}, changed(func(_ *mutant, c *driver.Claim) {
			c.Beside = ""
		})},
		{"ends all with one release", []string{"Shared/ReadersOverlap", "Shared/ReaderIsGrantedBesideItsWriter", "Shared/WriterOutlivesReaderBesideIt", "Shared/DowngradeWakesReaders"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				err := m.Backend.Release(ctx, c)
				m.Drop(c.Name)
				return err
			}
		}},
		{"never wakes readers and writers", []string{"Shared/WriterReleaseWakesReaders", "Shared/DowngradeWakesReaders", "Shared/LastReaderWakesWriter"}, neverWakes},
		{"wakes nobody while a reader is left", []string{"Shared/DowngradeWakesReaders"}, func(m *mutant) {
			m.wait = func(ctx context.Context, c driver.Claim, last driver.Outcome) error {
				if _, err := m.Backend.Waiter(c).Wait(ctx, last); err != nil {
					return err
				}
				if hs := m.holds(ctx, c.Name); len(hs) > 0 {
					<-ctx.Done()
				}
				return ctx.Err()
			}
		}},
		{"keeps each kind of lock apart", []string{"KindsDoNotMix", "TryAll/FailsOneByOne", "Latch/IsNoLock"}, func(m *mutant) {
			apart := func(c driver.Claim) driver.Claim {
				c.Name += c.Mode.String()
				if c.ReadWrite {
					c.Name += "rw"
				}
				return c
			}
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) { return m.Backend.Try(ctx, apart(c)) }
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal { return m.rightRenew(ctx, apart(c)) }
			m.release = func(ctx context.Context, c driver.Claim) error { return m.Backend.Release(ctx, apart(c)) }
			m.tryAll = func(ctx context.Context, cs []driver.Claim) []driver.Attempt {
				got := make([]driver.Attempt, len(cs))
				for i, c := range cs {
					got[i].Outcome, got[i].Err = m.try(ctx, c)
				}
				return got
			}
		}},
	}
}

func permitBugs() []bug {
	return []bug{
		{"admits one too many", []string{"Permits/PermitsAreLimited", "Permits/TryTakesOnePermit", "Permits/PermitComesBackOnce", "Permits/UnderContention", "Permits/PermitsAreCounted"}, changed(func(_ *mutant, c *driver.Claim) {
			c.Permits++
		})},
		{"takes a permit with every try", []string{"Permits/TryTakesOnePermit"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				if m.rightRenew(ctx, c).Err == nil {
					twin := c
					twin.Owner += " twin"
					_, _ = m.Backend.Try(ctx, twin)
				}
				return m.Backend.Try(ctx, c)
			}
		}},
		{"gives a permit back with every release", []string{"Permits/PermitComesBackOnce", "Permits/ExpiresAlone"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				err := m.Backend.Release(ctx, c)
				if err != nil {
					total, _, _ := m.Backend.Permits(ctx, c.Name)
					_ = m.Backend.Resize(ctx, c.Name, total+1)
				}
				return err
			}
		}},
		{"sets the permits with every claim", []string{"Permits/PermitsOfANameAreSetOnce", "Permits/ResizeUpAdmitsMore", "Permits/ResizeDownGivesNoneOut", "Permits/ResizeMakesTheSemaphore"}, changed(func(m *mutant, c *driver.Claim) {
			_ = m.Backend.Resize(context.Background(), c.Name, c.Permits)
		})},
		{"keeps permits of the dead", []string{"Permits/ExpiresAlone"}, changed(func(_ *mutant, c *driver.Claim) {
			c.TTL = time.Hour
		})},
		{"gives permits the same token", []string{"Permits/TokensRise", "Shared/ReadersOverlap"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				o.Token = min(o.Token, 7)
				return o, err
			}
		}},
		{"never wakes for a permit", []string{"Permits/ReleaseWakes", "Permits/ResizeUpAdmitsMore"}, neverWakes},
		{"counts tries", []string{"Permits/PermitsAreCounted"}, func(m *mutant) {
			tries := 0
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				tries++
				return m.Backend.Try(ctx, c)
			}
			m.permits = func(ctx context.Context, name string) (int, int, error) {
				total, _, err := m.Backend.Permits(ctx, name)
				return total, total - tries, err
			}
		}},
		{"adds permits with every resize", []string{"Permits/ResizeUpAdmitsMore", "Permits/ResizeMakesTheSemaphore"}, func(m *mutant) {
			m.resize = func(ctx context.Context, name string, n int) error {
				total, _, _ := m.Backend.Permits(ctx, name)
				return m.Backend.Resize(ctx, name, total+n)
			}
		}},
		{"takes permits back when there are fewer", []string{"Permits/ResizeDownGivesNoneOut"}, func(m *mutant) {
			m.resize = func(ctx context.Context, name string, n int) error {
				m.Drop(name)
				return m.Backend.Resize(ctx, name, n)
			}
		}},
		{"never has fewer permits than are held", []string{"Permits/ResizeDownGivesNoneOut"}, func(m *mutant) {
			m.resize = func(ctx context.Context, name string, n int) error {
				total, free, _ := m.Backend.Permits(ctx, name)
				return m.Backend.Resize(ctx, name, max(n, total-free))
			}
		}},
		{"resizes nothing", []string{"Permits/ResizeUpAdmitsMore", "Permits/ResizeDownGivesNoneOut", "Permits/ResizeMakesTheSemaphore"}, func(m *mutant) {
			m.resize = func(context.Context, string, int) error { return nil }
		}},
	}
}

func fairBugs() []bug {
	return []bug{
		{"has no queue", []string{"Fair/GrantsInOrderOfArrival", "Fair/TryKeepsOnePlace", "Fair/RefusesToOvertake", "Fair/GiveUpLeavesTheQueue", "Fair/GoneWaiterDoesNotBlock"}, changed(func(_ *mutant, c *driver.Claim) {
			c.Fair = false
		})},
		{"queues who does not wait", []string{"Fair/QueuesWhoWaits"}, changed(func(_ *mutant, c *driver.Claim) {
			c.NoQueue = false
		})},
		{"queues nobody", []string{"Fair/QueuesWhoWaits", "Fair/GrantsInOrderOfArrival"}, changed(func(_ *mutant, c *driver.Claim) {
			c.NoQueue = true
		})},
		{"does not say that it queues", []string{"Fair/QueuesWhoWaits"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				o.Queued = false
				return o, err
			}
		}},
		{"lets those overtake who do not wait", []string{"Fair/QueuesWhoWaits"}, changed(func(_ *mutant, c *driver.Claim) {
			c.Fair = c.Fair && !c.NoQueue
		})},
		{"sends those who try again to the back", []string{"Fair/GrantsInOrderOfArrival", "Fair/TryKeepsOnePlace", "Fair/WakesTheFirst"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				if err == nil && !o.Granted {
					_ = m.Backend.Release(ctx, c)
					return m.Backend.Try(ctx, c)
				}
				return o, err
			}
		}},
		{"queues up with every try", []string{"Fair/TryKeepsOnePlace"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				if err == nil && !o.Granted {
					twin := c
					twin.Owner += " twin"
					_, _ = m.Backend.Try(ctx, twin)
				}
				return o, err
			}
		}},
		{"keeps those who gave up in the queue", []string{"Fair/GiveUpLeavesTheQueue", "Fair/WakesTheFirst"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				hs := m.holds(ctx, c.Name)
				for _, h := range hs {
					if h.Owner == c.Owner {
						return m.Backend.Release(ctx, c)
					}
				}
				return nil
			}
		}},
		{"queues up those who gave up", []string{"Fair/GiveUpLeavesTheQueue", "Fair/IndeterminateReleaseRefusesLateTry"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				c.Indeterminate = false
				return m.Backend.Release(ctx, c)
			}
		}},
		{"waits for those who are gone", []string{"Fair/GoneWaiterDoesNotBlock"}, func(m *mutant) {
			var mu sync.Mutex
			seen := make(map[string]driver.Claim)
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, other := range seen {
					m.rightRenew(ctx, other)
				}
				seen[c.Owner] = c
				return m.Backend.Try(ctx, c)
			}
		}},
		{"forgets those who are alive", []string{"Fair/GoneWaiterDoesNotBlock"}, func(m *mutant) {
			var mu sync.Mutex
			came := make(map[string]time.Time)
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				mu.Lock()
				defer mu.Unlock()
				if t, ok := came[c.Owner]; !ok || time.Since(t) > 3*time.Second {
					came[c.Owner] = time.Now()
					_ = m.Backend.Release(ctx, c)
				}
				return m.Backend.Try(ctx, c)
			}
		}},
		{"knows no renewal of a place", []string{"Fair/RenewKeepsThePlace"}, func(m *mutant) {
			withSessions(m)
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				if holder(m, c) {
					return m.rightRenew(ctx, c)
				}
				return driver.Renewal{Err: driver.ErrGone}
			}
		}},
		{"forgets who only renews", []string{"Fair/RenewKeepsThePlace"}, func(m *mutant) {
			withSessions(m)
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				if holder(m, c) {
					return m.rightRenew(ctx, c)
				}
				return driver.Renewal{ValidFor: c.TTL}
			}
		}},
		{"keeps dead holders of a queue", []string{"Fair/HolderExpiresAlone"}, changed(func(_ *mutant, c *driver.Claim) {
			c.TTL = time.Hour
		})},
		{"never wakes a queue", []string{"Fair/WakesTheFirst"}, neverWakes},
	}
}

// withSessions declares that claims live as long as their client's session.
func withSessions(m *mutant) {
	m.info = func(info *driver.Info) { info.SessionTTL, info.MaxTTL = 3*time.Second, 3*time.Second }
}

// holder reports whether c is held.
func holder(m *mutant, c driver.Claim) bool {
	records, err := m.Get(context.Background(), c.Name)
	return err == nil && slices.ContainsFunc(records[0].Holds, func(h admin.Hold) bool { return h.Owner == c.Owner })
}

func batchBugs() []bug {
	return []bug{
		{"answers tries in another order", []string{"TryAll/AnswersAsTry"}, func(m *mutant) {
			m.tryAll = func(ctx context.Context, cs []driver.Claim) []driver.Attempt {
				got := m.Backend.TryAll(ctx, cs)
				if len(got) > 1 {
					got[0], got[1] = got[1], got[0]
				}
				return got
			}
		}},
		{"grants all or none", []string{"TryAll/AnswersAsTry", "TryAll/FailsOneByOne"}, func(m *mutant) {
			m.tryAll = func(ctx context.Context, cs []driver.Claim) []driver.Attempt {
				got := m.Backend.TryAll(ctx, cs)
				for _, a := range got {
					if !a.Outcome.Granted {
						for i, c := range cs {
							_ = m.Backend.Release(ctx, c)
							got[i].Outcome.Granted = false
						}
					}
				}
				return got
			}
		}},
		{"makes new claims of a batch", []string{"TryAll/IsIdempotent", "TryAll/AnswersAsTry"}, func(m *mutant) {
			m.tryAll = func(ctx context.Context, cs []driver.Claim) []driver.Attempt {
				fresh := make([]driver.Claim, len(cs))
				for i, c := range cs {
					c.Owner += " in a batch"
					fresh[i] = c
				}
				return m.Backend.TryAll(ctx, fresh)
			}
		}},
		{"ignores the context of a batch", []string{"TryAll/HonoursContext"}, func(m *mutant) {
			m.tryAll = func(ctx context.Context, cs []driver.Claim) []driver.Attempt {
				return m.Backend.TryAll(context.WithoutCancel(ctx), cs)
			}
		}},
		{"answers releases in another order", []string{"ReleaseAll/AnswersAsRelease", "Batches/OfManyNames"}, func(m *mutant) {
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				got := m.Backend.ReleaseAll(ctx, cs)
				if len(got) > 1 {
					got[0], got[1] = got[1], got[0]
				}
				return got
			}
		}},
		{"takes a batch of claims for settled", []string{"ReleaseAll/AnswersAsRelease"}, func(m *mutant) {
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				settled := append([]driver.Claim(nil), cs...)
				for i := range settled {
					settled[i].Indeterminate = false
				}
				return m.Backend.ReleaseAll(ctx, settled)
			}
		}},
		{"forgets what did not fit into a batch", []string{"Batches/OfManyNames"}, func(m *mutant) {
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				return append(m.Backend.ReleaseAll(ctx, cs[:min(len(cs), 100)]), make([]error, max(len(cs)-100, 0))...)
			}
			m.tryAll = func(ctx context.Context, cs []driver.Claim) []driver.Attempt {
				return append(m.Backend.TryAll(ctx, cs[:min(len(cs), 100)]), make([]driver.Attempt, max(len(cs)-100, 0))...)
			}
		}},
		{"ends whatever a batch names", []string{"ReleaseAll/AnswersAsRelease", "ReleaseAll/IsIdempotent"}, func(m *mutant) {
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				for _, c := range cs {
					_ = m.Backend.Release(ctx, m.asHolder(ctx, c))
				}
				return m.Backend.ReleaseAll(ctx, cs)
			}
		}},
		{"stops a batch of releases at the first failure", []string{"ReleaseAll/FailsOneByOne", "ReleaseAll/AnswersAsRelease"}, func(m *mutant) {
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				got := make([]error, len(cs))
				var failed error
				for i, c := range cs {
					if failed == nil {
						failed = m.Backend.Release(ctx, c)
					}
					got[i] = failed
				}
				return got
			}
		}},
		{"takes plain locks for granted in a batch", []string{"Batches/OfMixedKinds", "TryAll/AnswersAsTry"}, func(m *mutant) {
			m.tryAll = func(ctx context.Context, cs []driver.Claim) []driver.Attempt {
				got := m.Backend.TryAll(ctx, cs)
				for i, c := range cs {
					if !c.Fair && !c.ReadWrite {
						_ = m.Backend.Release(ctx, c)
						got[i].Outcome.Granted, got[i].Err = true, nil
					}
				}
				return got
			}
		}},
		{"wakes nobody after a batch", []string{"ReleaseAll/WakesWaiters"}, func(m *mutant) {
			var mu sync.Mutex
			batched := map[string]bool{}
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				mu.Lock()
				for _, c := range cs {
					batched[c.Name] = true
				}
				mu.Unlock()
				return m.Backend.ReleaseAll(ctx, cs)
			}
			m.wait = func(ctx context.Context, c driver.Claim, last driver.Outcome) error {
				w := m.Backend.Waiter(c)
				defer w.Close()
				_, err := w.Wait(ctx, last)
				mu.Lock()
				slept := batched[c.Name]
				mu.Unlock()
				if slept {
					<-ctx.Done()
					return ctx.Err()
				}
				return err
			}
		}},
		{"ignores the context of a batch of releases", []string{"ReleaseAll/HonoursContext"}, func(m *mutant) {
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				got := m.Backend.ReleaseAll(ctx, cs)
				if ctx.Err() != nil {
					pause(context.WithoutCancel(ctx), 2*prompt)
				}
				return got
			}
		}},
	}
}

// fakeLatch takes the place of memhold's latches.
type fakeLatch struct {
	driver.Latcher
	set    func(ctx context.Context, name, call string, n int64) (bool, error)
	down   func(ctx context.Context, name, call string) error
	count  func(ctx context.Context, name string) (int64, error)
	waiter func(name string) driver.Waiter
}

func (l *fakeLatch) SetCount(ctx context.Context, name, call string, n int64) (bool, error) {
	if l.set != nil {
		return l.set(ctx, name, call, n)
	}
	return l.Latcher.SetCount(ctx, name, call, n)
}

func (l *fakeLatch) CountDown(ctx context.Context, name, call string) error {
	if l.down != nil {
		return l.down(ctx, name, call)
	}
	return l.Latcher.CountDown(ctx, name, call)
}

func (l *fakeLatch) Count(ctx context.Context, name string) (int64, error) {
	if l.count != nil {
		return l.count(ctx, name)
	}
	return l.Latcher.Count(ctx, name)
}

func (l *fakeLatch) LatchWaiter(name string) driver.Waiter {
	if l.waiter != nil {
		return l.waiter(name)
	}
	return l.Latcher.LatchWaiter(name)
}

func latchBugs() []bug {
	plant := func(f func(m *mutant, l *fakeLatch)) func(*mutant) {
		return func(m *mutant) {
			l := &fakeLatch{Latcher: m.Backend}
			m.latch = l
			f(m, l)
		}
	}
	waits := func(wait waitFunc) func(*mutant) {
		return plant(func(_ *mutant, l *fakeLatch) {
			l.waiter = func(string) driver.Waiter { return wait }
		})
	}
	return []bug{
		{"sets a latch that is counting", []string{"Latch/IsSetOnce"}, plant(func(m *mutant, l *fakeLatch) {
			l.set = func(ctx context.Context, name, call string, n int64) (bool, error) {
				m.Drop(name)
				return m.Backend.SetCount(ctx, name, call, n)
			}
		})},
		{"forgets calls that set a latch", []string{"Latch/IsSetOnce"}, plant(func(m *mutant, l *fakeLatch) {
			l.set = func(ctx context.Context, name, _ string, n int64) (bool, error) {
				return m.Backend.SetCount(ctx, name, uuid.New(), n)
			}
		})},
		{"forgets calls that count down", []string{"Latch/CountsEachCallOnce", "Latch/CanBeSetAfterItOpened"}, plant(func(m *mutant, l *fakeLatch) {
			l.down = func(ctx context.Context, name, _ string) error {
				return m.Backend.CountDown(ctx, name, uuid.New())
			}
		})},
		{"remembers the last call alone", []string{"Latch/CountsEachCallOnce"}, plant(func(m *mutant, l *fakeLatch) {
			var last string
			l.down = func(ctx context.Context, name, call string) error {
				if call == last {
					return nil
				}
				last = call
				return m.Backend.CountDown(ctx, name, uuid.New())
			}
		})},
		{"counts below zero", []string{"Latch/StaysOpen"}, plant(func(m *mutant, l *fakeLatch) {
			var debt int64
			l.down = func(ctx context.Context, name, call string) error {
				if n, _ := m.Backend.Count(ctx, name); n == 0 {
					debt++
				}
				return m.Backend.CountDown(ctx, name, call)
			}
			l.count = func(ctx context.Context, name string) (int64, error) {
				n, err := m.Backend.Count(ctx, name)
				return n - debt, err
			}
		})},
		{"sets a latch once forever", []string{"Latch/CanBeSetAfterItOpened", "Latch/WakesWhenItOpens"}, plant(func(m *mutant, l *fakeLatch) {
			set := make(map[string]string)
			l.set = func(ctx context.Context, name, call string, n int64) (bool, error) {
				if first, ok := set[name]; ok && first != call {
					return false, nil
				}
				set[name] = call
				return m.Backend.SetCount(ctx, name, call, n)
			}
		})},
		{"keeps latches apart from locks", []string{"Latch/IsNoLock"}, plant(func(m *mutant, l *fakeLatch) {
			const mark = " latch"
			l.set = func(ctx context.Context, name, call string, n int64) (bool, error) {
				return m.Backend.SetCount(ctx, name+mark, call, n)
			}
			l.down = func(ctx context.Context, name, call string) error { return m.Backend.CountDown(ctx, name+mark, call) }
			l.count = func(ctx context.Context, name string) (int64, error) { return m.Backend.Count(ctx, name+mark) }
			l.waiter = func(name string) driver.Waiter { return m.Backend.LatchWaiter(name + mark) }
		})},
		{"never wakes for a latch", []string{"Latch/WakesWhenItOpens", "Latch/WaiterMissesNothing"}, waits(func(ctx context.Context, _ driver.Outcome) error {
			<-ctx.Done()
			return ctx.Err()
		})},
		{"listens to a latch only from Wait on", []string{"Latch/WaiterMissesNothing"}, plant(func(m *mutant, l *fakeLatch) {
			opened := make(chan struct{})
			var mu sync.Mutex
			l.down = func(ctx context.Context, name, call string) error {
				err := m.Backend.CountDown(ctx, name, call)
				mu.Lock()
				defer mu.Unlock()
				close(opened)
				opened = make(chan struct{})
				return err
			}
			l.waiter = func(string) driver.Waiter {
				return waitFunc(func(ctx context.Context, _ driver.Outcome) error {
					mu.Lock()
					next := opened
					mu.Unlock()
					select {
					case <-next:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}
		})},
		{"does not wait for a latch", []string{"Latch/WaiterDoesNotSpin"}, waits(func(ctx context.Context, _ driver.Outcome) error {
			return ctx.Err()
		})},
		{"hides the error of a latch's context", []string{"Latch/HonoursContext"}, waits(func(ctx context.Context, _ driver.Outcome) error {
			if ctx.Err() != nil {
				return errors.New("wait failed")
			}
			return nil
		})},
		{"ignores the context of a latch", []string{"Latch/HonoursContext"}, plant(func(m *mutant, l *fakeLatch) {
			l.count = func(ctx context.Context, name string) (int64, error) {
				return m.Backend.Count(context.WithoutCancel(ctx), name)
			}
		})},
	}
}
