package audit_test

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
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// recorder is a store that counts the calls of AppendLog, and may refuse them.
type recorder struct {
	*memhold.Backend
	calls [][]admin.Entry
	fail  func() error
}

func (c *recorder) AppendLog(ctx context.Context, by admin.Client, entries []admin.Entry) error {
	c.calls = append(c.calls, entries)
	if c.fail != nil {
		if err := c.fail(); err != nil {
			return err
		}
	}
	return c.Backend.AppendLog(ctx, by, entries)
}

// audited returns a Locker whose events are written to the event log of store.
func audited(s store, opts *audit.Options) (*holdfast.Locker, *audit.Writer) {
	w := audit.New(s, opts)
	return holdfast.New(s, &holdfast.Options{Observe: w.Observe}), w
}

type store interface {
	driver.Backend
	admin.Source
}

// written returns the event log of a store, one or two words for each entry.
func written(t *testing.T, s admin.Source) []string {
	t.Helper()
	var all []string
	for h, err := range admin.From(s).Log(t.Context(), admin.LogFilter{Last: time.Hour}) {
		if err != nil {
			t.Fatal(err)
		}
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

func TestWritesWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		w := audit.New(store, &audit.Options{Note: "ops"})
		a := holdfast.New(store, &holdfast.Options{Note: "a", Observe: w.Observe})
		b := holdfast.New(store, &holdfast.Options{Note: "b", Observe: w.Observe})
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
		records, err := store.Get(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		h := records[0].Holds[0].Holder
		if err := store.ForceUnlock(t.Context(), "job", h, "stuck"); err != nil {
			t.Fatal(err)
		}
		w.Forced("job", h, "stuck")
		<-lock.Context(t.Context()).Done()
		time.Sleep(2 * time.Second)
		want := []string{
			"acquired job", "waiting job", "gave-up job 5s", "released job 5s", "acquired job",
			"forced job stuck", "lost job " + time.Since(began.Add(7*time.Second)).String() + " forced",
		}
		got := written(t, store)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		list, err := store.ReadLog(t.Context(), admin.LogFilter{Last: time.Hour})
		i := slices.IndexFunc(list, func(h admin.Entry) bool { return h.Type == admin.EntryAcquired && h.Note == "a" })
		if err != nil || i < 0 || list[i].Kind != admin.KindMutex || list[i].Token == 0 || !list[i].At.Equal(began) {
			t.Errorf("got %+v and error %v, want the acquire of a at %v", list, err, began)
		}
	})
}

// Beyond its limits it writes only the number of entries; it always writes a loss.
func TestWritesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recorder{Backend: memhold.New()}
		l, _ := audited(store, nil)
		kept, err := l.Lock(t.Context(), "kept")
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			must.Unlock(t, must.Lock(t, l, "job"))
		}
		store.Drop("kept")
		if err := kept.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v, want ErrLost", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(store.calls) != 1 {
			t.Fatalf("the store was told %d times, want once", len(store.calls))
		}
		got := store.calls[0]
		if n := len(got); n != 102 || got[100].Type != admin.EntryLost || got[101].Type != admin.EntryMissed || got[101].Count != 1001-100 {
			t.Errorf("got %d happenings, the last are %+v", n, got[max(0, n-2):])
		}
	})
}

func TestFlushWritesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l, w := audited(store, nil)
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(lock.Unlock(), l.Drain(t.Context()), w.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got, want := written(t, store), []string{"acquired job", "released job"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// If a store refuses entries, or panics, only the event log has a hole. That is logged once.
func TestWritesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		turn := 0
		store := &recorder{Backend: memhold.New(), fail: func() error {
			if turn++; turn == 3 {
				panic("of the store")
			}
			if turn < 5 {
				return errors.New("no room")
			}
			return nil
		}}
		l, _ := audited(store, &audit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 6 {
			must.Unlock(t, must.Lock(t, l, "job"))
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if got := strings.Count(log.String(), "event log are missing"); got != 1 {
			t.Errorf("got %d warnings in %s", got, log.String())
		}
		if got := written(t, store); len(got) != 4 {
			t.Errorf("got %q, want what the last two calls told", got)
		}
	})
}

// If a store has no event log, that is logged once, and the locks work.
func TestStoreWithoutALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &recorder{Backend: memhold.New(), fail: func() error { return errors.ErrUnsupported }}
		l, _ := audited(store, &audit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			must.Unlock(t, must.Lock(t, l, "job"))
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if got := strings.Count(log.String(), "unsupported"); got != 1 {
			t.Errorf("got %d warnings, want one: %s", got, log.String())
		}
	})
}

// The entries of each Locker have its own client and Note.
func TestObservesSeveralLockers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recorder{Backend: memhold.New()}
		w := audit.New(store, nil)
		for _, note := range []string{"a", "b"} {
			l := holdfast.New(store, &holdfast.Options{Note: note, Observe: w.Observe})
			must.Unlock(t, must.Lock(t, l, "job"))
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := store.ReadLog(t.Context(), admin.LogFilter{Last: time.Hour})
		if err != nil || len(list) != 4 || len(store.calls) != 2 {
			t.Fatalf("got %+v with %d calls and error %v, want two entries of each, with one call", list, len(store.calls), err)
		}
		for i, e := range list {
			if want := []string{"a", "a", "b", "b"}[i]; e.Note != want || e.Client.ID == "" || !strings.HasPrefix(e.Owner, e.Client.ID+":") {
				t.Errorf("got %+v, want an entry of %s", e, want)
			}
		}
	})
}

// failing is a store that does not answer renewals and releases while it is down.
type failing struct {
	*recorder
	down atomic.Bool
}

func (f *failing) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if f.down.Load() {
		return nil, errors.New("down")
	}
	return f.recorder.Renew(ctx, cs)
}

func (f *failing) Release(ctx context.Context, c driver.Claim) error {
	if f.down.Load() {
		return errors.New("down")
	}
	return f.recorder.Release(ctx, c)
}

func (f *failing) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	return func() (int, error) { return -1, f.Release(ctx, c) }
}

func TestWritesOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{recorder: &recorder{Backend: memhold.New()}}
		l, _ := audited(store, nil)
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
		got := written(t, store)
		if len(got) != 3 || !strings.HasPrefix(got[1], "renewed-late job ") || !strings.HasPrefix(got[2], "released job ") || !strings.HasSuffix(got[2], " not confirmed") {
			t.Errorf("got %q, want a late renewal and a release that is not confirmed", got)
		}
	})
}

// Ten entries a second are written for as long as there are more.
func TestWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recorder{Backend: memhold.New()}
		l, _ := audited(store, nil)
		const seconds = 60
		for range seconds * 20 {
			must.Unlock(t, must.Lock(t, l, "job"))
			time.Sleep(time.Second / 20)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		common, missed := 0, 0
		for _, c := range store.calls {
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
