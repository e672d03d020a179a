// Package capstest looks at what the stores declare of themselves. It needs no server.
package capstest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/mysqlhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a kind of store, and a Backend of it that has no client: it fails as soon as it
// asks its store.
type store struct {
	name    string
	backend driver.Backend
}

func stores(t *testing.T) []store {
	t.Helper()
	redlock, err := quorum.Of(redishold.New(nil, nil), redishold.New(nil, nil), redishold.New(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	all := []store{
		{"Redis, as Redisson", redishold.New(nil, nil)},
		{"Redis, `Plain`", redishold.New(nil, &redishold.Options{Layout: redishold.Plain})},
		{"Redis, [`Timestamp`](docs/choosing.md#4-which-layout)", redishold.New(nil, &redishold.Options{Layout: redishold.Timestamp})},
	}
	for _, k := range anystore.Unlike() {
		all = append(all, store{k.Column, k.New()})
	}
	return append(
		all,
		store{"table of ShedLock", pghold.New(nil, &pghold.Options{Layout: pghold.ShedLock})},
		store{"`quorum` (Redlock)", redlock},
		store{"memory", memhold.New()},
	)
}

// The README's table of kinds and stores is what the stores declare.
func TestReadmeTable(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := table(t); !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not have the table of what the stores declare:\n%s", want)
	}
}

func table(t *testing.T) string {
	t.Helper()
	stores := stores(t)
	rows := []struct {
		name string
		has  func(b driver.Backend) bool
	}{
		{"`Mutex`: one holder; `WithOwner`: reentrant; `LockAll`: several names", func(driver.Backend) bool { return true }},
		{"`FairMutex`: first come, first served across all processes", func(b driver.Backend) bool { return b.Info().Caps.Fair }},
		{"`RWMutex`: many readers or one writer", func(b driver.Backend) bool { return b.Info().Caps.Shared }},
		{"`Semaphore`: n leased permits", func(b driver.Backend) bool { return b.Info().Caps.Permits }},
		{"`CountDownLatch`", func(b driver.Backend) bool { return b.Info().Caps.Latches }},
		{"fencing tokens", func(b driver.Backend) bool { return b.Info().Caps.Fencing }},
	}
	var out strings.Builder
	out.WriteString("| |")
	for _, s := range stores {
		fmt.Fprintf(&out, " %s |", s.name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(stores)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s |", r.name)
		for _, s := range stores {
			mark := "–"
			if r.has(s.backend) {
				mark = "yes"
			}
			fmt.Fprintf(&out, " %s |", mark)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// What a store lacks is said before it is asked.
func TestWhatAStoreLacks(t *testing.T) {
	for _, s := range append(stores(t), store{"table of ShedLock in MySQL", mysqlhold.New(nil, &mysqlhold.Options{Layout: mysqlhold.ShedLock})}) {
		t.Run(s.name, func(t *testing.T) {
			b := s.backend
			l, caps, ctx := holdfast.New(b, nil), b.Info().Caps, t.Context()
			_, resizes := b.(driver.Resizer)
			for what, kind := range map[string]struct {
				has bool
				use func() error
			}{
				"FairMutex":     {caps.Fair, func() error { _, err := l.FairMutex("job").TryLock(ctx); return err }},
				"FairMutex.Do":  {caps.Fair, func() error { return l.FairMutex("job").Do(ctx, nil) }},
				"RWMutex.Read":  {caps.Shared, func() error { _, err := l.RWMutex("job").Read.TryLock(ctx); return err }},
				"RWMutex.Write": {caps.Shared, func() error { _, err := l.RWMutex("job").Write.TryLock(ctx); return err }},
				"LockAll": {caps.Shared, func() error {
					_, err := holdfast.LockAll(ctx, []*holdfast.Mutex{l.RWMutex("a").Read, l.RWMutex("b").Write})
					return err
				}},
				"Semaphore.TryAcquire":     {caps.Permits, func() error { _, err := l.Semaphore("job", 2).TryAcquire(ctx); return err }},
				"Semaphore.Acquire":        {caps.Permits, func() error { _, err := l.Semaphore("job", 2).Acquire(ctx); return err }},
				"Semaphore.Do":             {caps.Permits, func() error { return l.Semaphore("job", 2).Do(ctx, nil) }},
				"Semaphore.Permits":        {caps.Permits && resizes, func() error { _, _, err := l.Semaphore("job", 2).Permits(ctx); return err }},
				"Semaphore.Resize":         {caps.Permits && resizes, func() error { return l.Semaphore("job", 2).Resize(ctx, 3) }},
				"CountDownLatch.TrySet":    {caps.Latches, func() error { _, err := l.CountDownLatch("job").TrySet(ctx, 2); return err }},
				"CountDownLatch.CountDown": {caps.Latches, func() error { return l.CountDownLatch("job").CountDown(ctx) }},
				"CountDownLatch.Count":     {caps.Latches, func() error { _, err := l.CountDownLatch("job").Count(ctx); return err }},
				"CountDownLatch.Wait":      {caps.Latches, func() error { return l.CountDownLatch("job").Wait(ctx) }},
			} {
				if kind.has {
					continue
				}
				if err := kind.use(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), b.Info().Name) {
					t.Errorf("%s: got error %v, want ErrUnsupported that names the store", what, err)
				}
			}
		})
	}
}
