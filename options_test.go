package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// longest is the longest Duration.
const longest = time.Duration(1<<63 - 1)

// A Wait without an end waits.
func TestWaitForVeryLong(t *testing.T) {
	for _, wait := range []time.Duration{longest, longest - 1, longest - time.Hour, longest / 2, 290 * 365 * 24 * time.Hour} {
		for kind := range ownedKinds(holdfast.New(faulty.New(), nil)) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				other := ownedKinds(holdfast.New(store, nil))[kind]
				blocker, err := other.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				l := holdfast.New(store, nil)
				m := ownedKinds(l)[kind]
				time.AfterFunc(time.Minute, func() { must.Unlock(t, blocker) })
				lock, err := m.TryLock(t.Context(), holdfast.Wait(wait))
				if err != nil {
					t.Fatalf("%s, Wait(%v): %v", kind, wait, err)
				}
				must.Unlock(t, lock)

				ctx := holdfast.WithOwner(t.Context())
				for range 2 { // a re-entry, too
					if lock, err = m.Lock(ctx, holdfast.Wait(wait)); err != nil {
						t.Fatalf("%s, Wait(%v) under an owner: %v", kind, wait, err)
					}
				}
				must.Unlock(t, lock)
				must.Unlock(t, lock)
			})
		}
	}
}

// A lease that is too long for the clock is refused; one of a hundred years is not.
func TestVeryLongLeases(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		for _, lease := range []time.Duration{longest, longest - 1, longest / 2, century + 1} {
			_, err := holdfast.New(store, nil).Lock(t.Context(), "job", holdfast.FixedLease(lease))
			if err == nil || !strings.Contains(err.Error(), "too long") {
				t.Errorf("FixedLease(%v): got %v, want that it is too long", lease, err)
			}
			_, err = holdfast.New(store, &holdfast.Options{TTL: lease}).Lock(t.Context(), "job")
			if err == nil || !strings.Contains(err.Error(), "too long") {
				t.Errorf("TTL %v: got %v, want that it is too long", lease, err)
			}
		}
		for what, lock := range map[string]func() (*holdfast.Lock, error){
			"Lease": func() (*holdfast.Lock, error) {
				return holdfast.New(store, nil).Lock(t.Context(), "job", holdfast.FixedLease(century))
			},
			"TTL": func() (*holdfast.Lock, error) {
				return holdfast.New(store, &holdfast.Options{TTL: century, Handoff: holdfast.Handoff{For: longest}}).Lock(t.Context(), "job")
			},
		} {
			k, err := lock()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			time.Sleep(time.Hour)
			if k.Err() != nil || k.Remaining() < century/2 {
				t.Errorf("%s, after an hour: got %v, %v left", what, k.Err(), k.Remaining())
			}
			must.Unlock(t, k)
		}
	})
}

// A store may grant a lock until it is released, with the longest Duration.
func TestGrantForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		store.OnTry = func(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
			out, err := store.Backend.Try(ctx, c)
			out.ValidFor = longest
			return out, err
		}
		store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
			answers, err := store.Backend.Renew(ctx, cs)
			for i := range answers {
				answers[i].ValidFor = longest
			}
			return answers, err
		}
		k := must.Lock(t, holdfast.New(store, nil), "job")
		for range 3 {
			if k.Err() != nil || k.Remaining() < 365*24*time.Hour {
				t.Errorf("got %v, %v left", k.Err(), k.Remaining())
			}
			time.Sleep(time.Minute)
		}
		must.Unlock(t, k)
	})
}

// bounded is a store that keeps locks only for times in a range.
type bounded struct {
	*faulty.Store
	least, most time.Duration
}

func (b bounded) Info() driver.Info {
	info := b.Store.Info()
	info.MinTTL, info.MaxTTL = b.least, b.most
	return info
}

// The default TTL is one that the store allows.
func TestDefaultTTLFitsTheStore(t *testing.T) {
	for _, tt := range []struct{ least, most, want time.Duration }{
		{0, 0, 30 * time.Second},
		{0, time.Minute, 30 * time.Second},
		{0, 10 * time.Second, 10 * time.Second},
		{time.Second, 2 * time.Second, 2 * time.Second},
		{time.Minute, 0, time.Minute},
		{time.Minute, time.Hour, time.Minute},
		{time.Minute, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := bounded{faulty.New(), tt.least, tt.most}
			l := holdfast.New(store, nil)
			k, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Errorf("a store that keeps locks for %v to %v: %v", tt.least, tt.most, err)
				return
			}
			between(t, "the lease", k.Remaining(), tt.want*9/10, tt.want*9/10)
			must.Unlock(t, k)
		})
	}
}

// limited is a store in memory with another Info.
type limited struct {
	*memhold.Backend
	info func(*driver.Info)
	try  func(driver.Claim)
}

func (b limited) Info() driver.Info {
	info := b.Backend.Info()
	b.info(&info)
	return info
}

func (b limited) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	b.try(c)
	return b.Backend.Try(ctx, c)
}

// TestRecheck counts the tries of a claim that waits for a minute. Each sleep lasts
// Recheck, or a second without it, or up to a quarter less.
func TestRecheck(t *testing.T) {
	for name, test := range map[string]struct {
		recheck     time.Duration
		least, most int
	}{
		"wake-ups may get lost": {0, 60, 81},
		"wake-ups do not":       {20 * time.Second, 4, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				store := limited{
					memhold.New(),
					func(info *driver.Info) { info.Recheck = test.recheck },
					func(driver.Claim) { tries++ },
				}
				held := must.Lock(t, holdfast.New(store.Backend, nil), "job")
				_, err := holdfast.New(store, nil).TryLock(t.Context(), "job", holdfast.Wait(time.Minute))
				if !errors.Is(err, holdfast.ErrBusy) {
					t.Errorf("got %v, want ErrBusy", err)
				}
				if tries < test.least || tries > test.most {
					t.Errorf("%d tries in a minute, want %d to %d", tries, test.least, test.most)
				}
				must.Unlock(t, held)
			})
		})
	}
}

// TestMaxTokens lets goroutines pass a lock on, in a store that reserves few tokens with a
// grant. No claim asks for more, and no token comes twice.
func TestMaxTokens(t *testing.T) {
	for _, most := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			tries, asked := 0, 0
			store := limited{
				memhold.New(),
				func(info *driver.Info) { info.MaxTokens = most },
				func(c driver.Claim) { tries++; asked = max(asked, c.Tokens) },
			}
			l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{For: endless}})
			var last uint64
			line(t, l, store, 20, func(_ int, k *holdfast.Lock) {
				if k.Token() <= last {
					t.Errorf("token %d after %d", k.Token(), last)
				}
				last = k.Token()
			})
			if asked != most {
				t.Errorf("asked for %d tokens, want %d", asked, most)
			}
			if least := 21 / most; tries < least {
				t.Errorf("%d tries for 21 holders of %d tokens each", tries, most)
			}
		})
	}
}
