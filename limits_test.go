package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

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
