package drivertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// TestChecksPassWithoutBug is the control of the test below: it shows that the bug fails a
// check, and not the recorder or the wrapper.
func TestChecksPassWithoutBug(t *testing.T) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			rec := judge(t, c.name, func() driver.Backend {
				return &mutant{Backend: memhold.New(), info: func(info *driver.Info) { info.Recheck, info.MaxTokens = time.Minute, 4 }}
			})
			if len(rec.Complaints) > 0 {
				t.Errorf("complaints about a store without a bug:\n\t%s", rec)
			}
		})
	}
}

// TestChecksFindBugs shows that each check can fail, and does so for the bug that it has to
// find.
func TestChecksFindBugs(t *testing.T) {
	unproven := make(map[string]bool)
	for _, c := range checks() {
		unproven[c.name] = true
	}
	for _, bug := range bugs() {
		for _, check := range bug.failsOfAllKinds() {
			delete(unproven, check)
			t.Run(bug.name+"/"+check, func(t *testing.T) {
				rec := judge(t, check, func() driver.Backend {
					m := &mutant{Backend: memhold.New()}
					bug.plant(m)
					return m
				})
				if len(rec.Complaints) == 0 {
					t.Errorf("%s passes a store that %s", check, bug.name)
				}
				t.Logf("complaints:\n\t%s", rec)
			})
		}
	}
	for check := range unproven {
		t.Errorf("no bug shows that %s can fail", check)
	}
}

// failsOfAllKinds returns the checks that must find b, each followed by the same check of
// the other kinds of lock, because they can have the bugs of a mutex.
func (b bug) failsOfAllKinds() []string {
	var all []string
	for _, name := range b.fails {
		all = append(all, name)
		for _, c := range mutexLikeChecks() {
			kind, same, _ := strings.Cut(c.name, "/")
			if same == name && !b.spares(kind) {
				all = append(all, c.name)
			}
		}
	}
	return all
}

// spares reports whether kind cannot show the bug.
func (b bug) spares(kind string) bool {
	switch b.name {
	case "asks only whether the name is free":
		return kind == "Fair" // where nobody can take the name before its turn
	default:
		return false
	}
}

// plainMutex declares no capabilities, and only excludes. Its calls take time, as those of
// a store on the network do.
type plainMutex struct{ driver.Backend }

func (m plainMutex) Info() driver.Info { return driver.Info{Name: "plain"} }

func (m plainMutex) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	pause(ctx, time.Millisecond)
	o, err := m.Backend.Try(ctx, c)
	return driver.Outcome{Granted: o.Granted, ValidFor: o.ValidFor}, err
}

func (m plainMutex) Waiter(driver.Claim) driver.Waiter {
	return waitFunc(func(ctx context.Context, _ driver.Outcome) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return errors.ErrUnsupported
	})
}

func TestSuiteServesPlainMutex(t *testing.T) {
	Suite{
		Open:     func(*testing.T) driver.Backend { return plainMutex{memhold.New()} },
		Synctest: true,
	}.Run(t)
}

// A store that forgets a claim that was given up, and says so, passes.
func TestSuiteServesStoreWithoutTombstones(t *testing.T) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			m := &mutant{Backend: memhold.New(), info: func(info *driver.Info) { info.Caps.Tombstones = false }}
			m.release = func(ctx context.Context, c driver.Claim) error {
				c.Indeterminate = false
				return m.Backend.Release(ctx, c)
			}
			m.endAll = func(ctx context.Context, cs []driver.Claim) []error {
				errs := make([]error, len(cs))
				for i, c := range cs {
					errs[i] = m.release(ctx, c)
				}
				return errs
			}
			if c.missing(m) != "" {
				return
			}
			if rec := judge(t, c.name, func() driver.Backend { return m }); len(rec.Complaints) > 0 {
				t.Errorf("complaints:\n\t%s", rec)
			}
		})
	}
}

// A store with sessions has another client that stops responding, while the claims of all
// other clients are kept alive.
func TestSuiteServesStoreWithSessions(t *testing.T) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			m := &mutant{Backend: memhold.New()}
			withSessions(m)
			if c.missing(m) != "" {
				return
			}
			if rec := judge(t, c.name, func() driver.Backend { return m }); len(rec.Complaints) > 0 {
				t.Errorf("complaints:\n\t%s", rec)
			}
		})
	}
}

// A store that keeps the session of a silent client alive fails.
func TestSilentClientsOfSessionsEnd(t *testing.T) {
	for _, name := range []string{
		"ExpiresAlone", "ValidForIsALowerBound", "RenewTouchesOwnClaimOnly", "RenewNeverRevives", "Writer/ExpiresAlone",
		"Shared/ReadersExpireOneByOne", "Permits/ExpiresAlone", "Fair/HolderExpiresAlone",
	} {
		m := &mutant{Backend: memhold.New()}
		withSessions(m)
		m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			c.TTL = time.Hour
			out, err := m.Backend.Try(ctx, c)
			out.ValidFor = min(out.ValidFor, m.Info().SessionTTL)
			return out, err
		}
		if rec := judge(t, name, func() driver.Backend { return m }); len(rec.Complaints) == 0 {
			t.Errorf("%s passes a store whose sessions do not end", name)
		}
	}
}

func TestSuiteSkipsWhatIsNotDeclared(t *testing.T) {
	for name, want := range map[string]string{
		"ExcludesOthers":                     "",
		"TokensRise":                         "Caps.Fencing",
		"ExpiresAlone":                       "Caps.ExpiresAlone",
		"IndeterminateReleaseRefusesLateTry": "Caps.Tombstones",
		"WaitReturnsOnRelease":               "Caps.Wakes",
		"WaitIsWokenAfterLong":               "Caps.Wakes",
		"Writer/ExcludesOthers":              "Caps.Shared",
		"Shared/ReadersOverlap":              "Caps.Shared",
		"Permits/ResizeUpAdmitsMore":         "Caps.Permits",
		"Fair/GrantsInOrderOfArrival":        "Caps.Fair",
		"Fair/RenewKeepsThePlace":            "Caps.Fair",
		"KindsDoNotMix":                      "Caps.Shared and no Caps.Permits",
		"TryAll/AnswersAsTry":                "driver.Batcher",
		"Latch/IsSetOnce":                    "Caps.Latches and driver.Latcher",
	} {
		if got := checkNamed(t, name).missing(plainMutex{memhold.New()}); got != want {
			t.Errorf("%s: got %q missing, want %q", name, got, want)
		}
	}
}

// bug is one fault of a store.
type bug struct {
	name  string   // what the store does
	fails []string // the checks that must find it
	plant func(m *mutant)
}

func bugs() []bug {
	var all []bug
	for _, some := range [][]bug{tryBugs(), ownerBugs(), tokenBugs(), renewBugs(), releaseBugs(), expiryBugs(), waitBugs(), noticeBugs(), atLeastBugs(), contextBugs(), sharedBugs(), permitBugs(), fairBugs(), batchBugs(), latchBugs()} {
		all = append(all, some...)
	}
	return all
}

func tryBugs() []bug {
	rename := func(f func(string) string) func(*mutant) {
		return func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				c.Name = f(c.Name)
				return m.Backend.Try(ctx, c)
			}
		}
	}
	return []bug{
		{"grants twice", []string{"ExcludesOthers", "ExcludesUnderContention", "TryIsIdempotentByOwner"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				if err == nil && !o.Granted {
					o = driver.Outcome{Granted: true, Token: 1, ValidFor: c.TTL}
				}
				return o, err
			}
		}},
		{"says that a new hold is old", []string{"ExcludesOthers"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				if err == nil && !o.Granted {
					o.HeldFor = time.Minute
				}
				return o, err
			}
		}},
		{"refuses the holder's repeated try", []string{"TryIsIdempotentByOwner"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				if hs := m.holds(ctx, c.Name); len(hs) == 1 {
					return driver.Outcome{RetryAfter: hs[0].Remaining}, nil
				}
				return m.Backend.Try(ctx, c)
			}
		}},
		{"folds case", []string{"NamesAreInjective"}, rename(strings.ToLower)},
		{"trims spaces", []string{"NamesAreInjective"}, rename(strings.TrimSpace)},
		{"cuts names", []string{"NamesAreInjective"}, rename(func(s string) string { return s[:min(len(s), 255)] })},
		{"ends names at a zero byte", []string{"NamesAreInjective"}, rename(func(s string) string {
			s, _, _ = strings.Cut(s, "\x00")
			return s
		})},
		{"locks the part of a name in braces", []string{"NamesAreInjective"}, rename(func(s string) string {
			if _, after, ok := strings.Cut(s, "{"); ok {
				if tag, _, ok := strings.Cut(after, "}"); ok {
					return tag
				}
			}
			return s
		})},
	}
}

func tokenBugs() []bug {
	return []bug{
		{"repeats tokens", []string{"TokensRise", "ExcludesUnderContention"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				o.Token = 7
				return o, err
			}
		}},
		{"reserves one token instead of a block", []string{"TokensRise", "ExcludesUnderContention"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				c.Tokens = 1
				return m.Backend.Try(ctx, c)
			}
		}},
	}
}

func renewBugs() []bug {
	return []bug{
		{"makes lost claims anew on renewal", []string{"RenewNeverRevives", "RenewAnswersEachClaim"}, func(m *mutant) {
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				r := m.rightRenew(ctx, c)
				if !errors.Is(r.Err, driver.ErrGone) {
					return r
				}
				if o, err := m.Backend.Try(ctx, c); err == nil && o.Granted {
					return driver.Renewal{ValidFor: o.ValidFor}
				}
				return r
			}
		}},
		{"renews without owner check", []string{"RenewTouchesOwnClaimOnly"}, func(m *mutant) {
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				return m.rightRenew(ctx, m.asHolder(ctx, c))
			}
		}},
		{"extends the holder when a stranger renews", []string{"RenewTouchesOwnClaimOnly"}, func(m *mutant) {
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				m.rightRenew(ctx, m.asHolder(ctx, c))
				return m.rightRenew(ctx, c)
			}
		}},
		{"renews nothing", []string{"RenewExtendsBeyondTTL"}, func(m *mutant) {
			m.renew = func(_ context.Context, c driver.Claim) driver.Renewal {
				return driver.Renewal{ValidFor: c.TTL}
			}
		}},
		{"renews for as long as it granted", []string{"RenewLastsForItsOwnTTL"}, func(m *mutant) {
			var granted sync.Map
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				granted.Store(c.Owner, c.TTL)
				return m.Backend.Try(ctx, c)
			}
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				if ttl, ok := granted.Load(c.Owner); ok {
					c.TTL = ttl.(time.Duration)
				}
				return m.rightRenew(ctx, c)
			}
		}},
		{"renews a batch for the TTL of its first claim", []string{"RenewLastsForItsOwnTTL"}, func(m *mutant) {
			m.batch = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				cs = slices.Clone(cs)
				for i := range cs {
					cs[i].TTL = cs[0].TTL
				}
				return m.Backend.Renew(ctx, cs)
			}
		}},
		{"answers a batch in another order", []string{"RenewAnswersEachClaim"}, func(m *mutant) {
			m.batch = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				answers, err := m.Backend.Renew(ctx, cs)
				if n := len(answers); n > 1 {
					answers[0], answers[1] = answers[1], answers[0]
				}
				return answers, err
			}
		}},
		{"fails a batch for one lost claim", []string{"RenewAnswersEachClaim"}, func(m *mutant) {
			m.batch = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				answers, err := m.Backend.Renew(ctx, cs)
				for _, a := range answers {
					err = errors.Join(err, a.Err)
				}
				return answers, err
			}
		}},
	}
}

func releaseBugs() []bug {
	return []bug{
		{"releases without owner check", []string{"ReleaseByStrangerChangesNothing", "ReleaseTwiceIsGone"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				return m.Backend.Release(ctx, m.asHolder(ctx, c))
			}
		}},
		{"does not say when nothing was released", []string{"ReleaseTwiceIsGone", "ReleaseOfNeverTriedIsGone"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				_ = m.Backend.Release(ctx, c)
				return nil
			}
		}},
		{"releases nothing", []string{"ReleaseFreesForOthers"}, func(m *mutant) {
			m.release = func(context.Context, driver.Claim) error { return nil }
		}},
		{"lets a late try in", []string{"IndeterminateReleaseRefusesLateTry"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				c.Indeterminate = false
				return m.Backend.Release(ctx, c)
			}
		}},
	}
}

func expiryBugs() []bug {
	return []bug{
		{"keeps grants without a TTL", []string{"ExpiresAlone"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				c.TTL = time.Hour
				return m.Backend.Try(ctx, c)
			}
		}},
		{"promises more than it keeps on a grant", []string{"ValidForIsALowerBound"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				c.TTL = c.TTL * 9 / 10
				o, err := m.Backend.Try(ctx, c)
				o.ValidFor = o.ValidFor * 10 / 9
				return o, err
			}
		}},
		{"promises more than it keeps on a renewal", []string{"ValidForIsALowerBound"}, func(m *mutant) {
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				r := m.rightRenew(ctx, c)
				r.ValidFor = r.ValidFor * 10 / 9
				return r
			}
		}},
	}
}

func waitBugs() []bug {
	return []bug{
		{"listens only from Wait on", []string{"WaitMissesNothing"}, func(m *mutant) {
			var mu sync.Mutex
			changed := make(chan struct{})
			m.release = func(ctx context.Context, c driver.Claim) error {
				err := m.Backend.Release(ctx, c)
				mu.Lock()
				defer mu.Unlock()
				close(changed)
				changed = make(chan struct{})
				return err
			}
			m.wait = func(ctx context.Context, _ driver.Claim, _ driver.Outcome) error {
				mu.Lock()
				next := changed
				mu.Unlock()
				select {
				case <-next:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}},
		{"never wakes", []string{"WaitReturnsOnRelease", "WaitMissesNothing"}, func(m *mutant) {
			m.wait = func(ctx context.Context, _ driver.Claim, _ driver.Outcome) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}},
		{"wakes nobody after a second", []string{"WaitIsWokenAfterLong"}, func(m *mutant) {
			m.info = func(info *driver.Info) { info.Recheck = time.Minute }
			began := time.Now()
			m.wait = func(ctx context.Context, c driver.Claim, last driver.Outcome) error {
				if time.Since(began) > time.Second {
					<-ctx.Done()
				}
				_, err := m.Backend.Waiter(c).Wait(ctx, last)
				return err
			}
		}},
		{"reserves one token where it has no blocks", []string{"TokensRise"}, func(m *mutant) {
			m.info = func(info *driver.Info) { info.MaxTokens = 4 }
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				c.Tokens = 1
				return m.Backend.Try(ctx, c)
			}
		}},
		{"wakes with a grant that is none", []string{"WaitGrantsWhatIsHeld"}, func(m *mutant) {
			m.grants = driver.Outcome{Granted: true, Token: 1, ValidFor: time.Second}
		}},
		{"does not wait", []string{"WaitDoesNotSpin"}, func(m *mutant) {
			m.wait = func(ctx context.Context, _ driver.Claim, _ driver.Outcome) error { return ctx.Err() }
		}},
	}
}

func contextBugs() []bug {
	return []bug{
		{"ignores the context of a try", []string{"TryHonoursContext"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				return m.Backend.Try(context.WithoutCancel(ctx), c)
			}
		}},
		{"hides the error of the context", []string{"TryHonoursContext", "WaitHonoursContext"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				o, err := m.Backend.Try(ctx, c)
				if err != nil {
					err = errors.New("try failed")
				}
				return o, err
			}
			m.wait = func(ctx context.Context, c driver.Claim, last driver.Outcome) error {
				if _, err := m.Backend.Waiter(c).Wait(ctx, last); err != nil {
					return errors.New("wait failed")
				}
				return nil
			}
		}},
		{"leaves a claim behind after a cancelled try", []string{"TryHonoursContext"}, func(m *mutant) {
			m.try = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
				if ctx.Err() != nil {
					c.Owner += " on its way"
				}
				o, err := m.Backend.Try(context.WithoutCancel(ctx), c)
				return o, errors.Join(err, ctx.Err())
			}
		}},
		{"ignores the context of a wait", []string{"WaitHonoursContext"}, func(m *mutant) {
			m.wait = func(ctx context.Context, c driver.Claim, last driver.Outcome) error {
				_, err := m.Backend.Waiter(c).Wait(context.WithoutCancel(ctx), last)
				return err
			}
		}},
		{"calls a cancelled renewal a loss", []string{"RenewHonoursContext"}, func(m *mutant) {
			m.renew = func(ctx context.Context, c driver.Claim) driver.Renewal {
				r := m.rightRenew(ctx, c)
				if r.Err != nil {
					r.Err = driver.ErrGone
				}
				return r
			}
		}},
		{"hangs in a cancelled release", []string{"ReleaseHonoursContext"}, func(m *mutant) {
			m.release = func(ctx context.Context, c driver.Claim) error {
				if ctx.Err() != nil {
					time.Sleep(3 * time.Second)
				}
				return m.Backend.Release(ctx, c)
			}
		}},
	}
}
