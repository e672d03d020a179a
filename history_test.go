package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// chronicle is a store that counts how often it is told something, and may not
// take it.
type chronicle struct {
	*memhold.Backend
	chapters [][]admin.Entry
	fail     func() error
}

func (c *chronicle) AppendLog(ctx context.Context, by admin.Client, entries []admin.Entry) error {
	c.chapters = append(c.chapters, entries)
	if c.fail != nil {
		if err := c.fail(); err != nil {
			return err
		}
	}
	return c.Backend.AppendLog(ctx, by, entries)
}

// told is the history of a store, a word or two for each.
func told(t *testing.T, l *holdfast.Locker) []string {
	t.Helper()
	list, err := l.History(t.Context(), admin.LogFilter{Past: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, h := range list {
		text := string(h.Type) + " " + h.Name
		for _, d := range []time.Duration{h.Waited, h.HeldFor, h.Left} {
			if d > 0 {
				text += " " + d.String()
			}
		}
		if h.Reason != "" {
			text += " " + h.Reason
		}
		if h.Count > 0 {
			text += fmt.Sprint(h.Count)
		}
		all = append(all, text)
	}
	return all
}

func TestHistoryTellsWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		var seen atomic.Int64
		a := holdfast.New(store, &holdfast.Options{Note: "a", History: true, Observe: func(context.Context, holdfast.Event) { seen.Add(1) }})
		b := holdfast.New(store, &holdfast.Options{Note: "b", History: true})
		began := time.Now()
		lock, err := a.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.TryLock(t.Context(), "job"); !errors.Is(err, holdfast.ErrBusy) {
			t.Fatalf("got %v, want ErrBusy", err)
		}
		if _, err := b.TryLock(t.Context(), "job", holdfast.Wait(5*time.Second)); !errors.Is(err, holdfast.ErrBusy) {
			t.Fatalf("got %v, want ErrBusy", err)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if lock, err = b.Lock(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		holders, err := a.Inspect(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Break(t.Context(), "job", holders[0], "stuck"); err != nil {
			t.Fatal(err)
		}
		<-lock.Context(t.Context()).Done()
		time.Sleep(2 * time.Second)
		want := []string{
			"acquired job", "waiting job", "gave-up job 5s", "released job 5s", "acquired job",
			"forced job stuck", "lost job " + time.Since(began.Add(7*time.Second)).String() + " forced",
		}
		got := told(t, a)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if seen.Load() == 0 {
			t.Error("Options.Observe was not called")
		}
		list, err := a.History(t.Context(), admin.LogFilter{Past: time.Hour})
		i := slices.IndexFunc(list, func(h admin.Entry) bool { return h.Type == admin.EntryAcquired && h.Note == "a" })
		if err != nil || i < 0 || list[i].Kind != admin.KindMutex || list[i].Token == 0 || !list[i].At.Equal(began) {
			t.Errorf("got %+v and error %v, want the acquire of a at %v", list, err, began)
		}
	})
}

// Of very much only the number is told; a loss always.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &chronicle{Backend: memhold.New()}
		l := holdfast.New(store, &holdfast.Options{History: true})
		kept, err := l.Lock(t.Context(), "kept")
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			lock, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		store.Drop("kept")
		if err := kept.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v, want ErrLost", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(store.chapters) != 1 {
			t.Fatalf("the store was told %d times, want once", len(store.chapters))
		}
		got := store.chapters[0]
		if n := len(got); n != 102 || got[100].Type != admin.EntryLost || got[101].Type != admin.EntryMissed || got[101].Count != 1001-100 {
			t.Errorf("got %d happenings, the last are %+v", n, got[max(0, n-2):])
		}
	})
}

func TestDrainTellsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), &holdfast.Options{History: true})
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(lock.Unlock(), l.Drain(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got, want := told(t, l), []string{"acquired job", "released job"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A store that does not take what it is told, or panics, costs the history and
// nothing else; that is said once.
func TestHistoryThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		turn := 0
		store := &chronicle{Backend: memhold.New(), fail: func() error {
			if turn++; turn == 3 {
				panic("of the store")
			}
			if turn < 5 {
				return errors.New("no room")
			}
			return nil
		}}
		l := holdfast.New(store, &holdfast.Options{History: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 6 {
			lock, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if got := strings.Count(log.String(), "history is not kept"); got != 1 || !strings.Contains(log.String(), "panicked") {
			t.Errorf("got %d warnings in %s", got, log.String())
		}
		if got := told(t, l); len(got) != 4 {
			t.Errorf("got %q, want what the last two calls told", got)
		}
	})
}

func TestHistoryWhereThereIsNone(t *testing.T) {
	l := holdfast.New(bare{memhold.New()}, &holdfast.Options{History: true})
	if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TryLock: got %v, want ErrUnsupported", err)
	}
	l = holdfast.New(bare{memhold.New()}, nil)
	if _, err := l.History(t.Context(), admin.LogFilter{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("History: got %v, want ErrUnsupported", err)
	}
}

// failing is a store that does not answer renewals and releases while it is down.
type failing struct {
	*chronicle
	down atomic.Bool
}

func (f *failing) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if f.down.Load() {
		return nil, errors.New("down")
	}
	return f.chronicle.Renew(ctx, cs)
}

func (f *failing) Release(ctx context.Context, c driver.Claim) error {
	if f.down.Load() {
		return errors.New("down")
	}
	return f.chronicle.Release(ctx, c)
}

func (f *failing) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	return func() (int, error) { return -1, f.Release(ctx, c) }
}

func TestHistoryTellsOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{chronicle: &chronicle{Backend: memhold.New()}}
		l := holdfast.New(store, &holdfast.Options{History: true})
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		store.down.Store(true)
		time.Sleep(21 * time.Second)
		store.down.Store(false)
		time.Sleep(7 * time.Second)
		store.down.Store(true)
		if err := lock.Unlock(); err == nil {
			t.Fatal("Unlock: got no error from a store that is down")
		}
		store.down.Store(false)
		time.Sleep(time.Minute)
		got := told(t, l)
		if len(got) != 3 || !strings.HasPrefix(got[1], "renewed-late job ") || !strings.HasPrefix(got[2], "released job ") || !strings.HasSuffix(got[2], " not confirmed") {
			t.Errorf("got %q, want a late renewal and a release that is not confirmed", got)
		}
	})
}

// Ten a second are told for as long as it goes on.
func TestHistoryGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &chronicle{Backend: memhold.New()}
		l := holdfast.New(store, &holdfast.Options{History: true})
		const seconds = 60
		for range seconds * 20 {
			lock, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 20)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		common, missed := 0, 0
		for _, c := range store.chapters {
			for _, h := range c {
				if missed += h.Count; h.Type != admin.EntryMissed {
					common++
				}
			}
		}
		if want := 100 + 10*seconds; common < want-20 || common > want+20 || common+missed != seconds*40 {
			t.Errorf("got %d happenings, want about %d; %d are missed, of %d", common, want, missed, seconds*40)
		}
	})
}
