package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// bare is a store that is nothing but a Backend.
type bare struct{ driver.Backend }

// calls makes each call of a Console and returns its error.
func calls(ctx context.Context, c *admin.Console, name string) map[string]error {
	all := map[string]error{"ForceUnlock": c.ForceUnlock(ctx, name, admin.Holder{}, "why")}
	_, all["Get"] = c.Get(ctx, name)
	_, all["Describe"] = c.Describe(ctx, name)
	_, all["ForceReasons"] = c.ForceReasons(ctx, []admin.Ended{{Name: name}})
	return all
}

func TestConsoleOfAStoreThatIsNoSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admin.New(bare{memhold.New()})
		all := calls(t.Context(), c, "job")
		for _, err := range c.List(t.Context(), admin.Filter{}) {
			all["List"] = err
		}
		for _, err := range c.Log(t.Context(), admin.LogFilter{}) {
			all["Log"] = err
		}
		if len(all) != 6 {
			t.Errorf("got %d calls, want 6", len(all))
		}
		for call, err := range all {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "memory") {
				t.Errorf("%s: got %v, want ErrUnsupported and the name of the store", call, err)
			}
		}
	})
}

func TestConsoleChecksNames(t *testing.T) {
	store := memhold.New()
	for _, name := range []string{"", strings.Repeat("x", 1<<20)} {
		if limit := store.Info().MaxName; name != "" && limit == 0 {
			continue
		}
		for call, err := range calls(t.Context(), admin.From(store), name) {
			if err == nil || errors.Is(err, driver.ErrGone) || !strings.Contains(err.Error(), "name of the lock") {
				t.Errorf("%s of a name of %d bytes: got %v", call, len(name), err)
			}
		}
	}
}

func TestNewAndFromPanicOnNil(t *testing.T) {
	for what, f := range map[string]func(){"New": func() { admin.New(nil) }, "From": func() { admin.From(nil) }} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, "admin: "+what) {
					t.Errorf("%s(nil): got panic %q", what, p)
				}
			}()
			f()
		}()
	}
}

// paged records how many entries are requested at a time.
type paged struct {
	*memhold.Backend
	asked []int
}

func (p *paged) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	p.asked = append(p.asked, f.Limit)
	return p.Backend.ReadLog(ctx, f)
}

func TestLogEndsWhereItIsAskedTo(t *testing.T) {
	store := &paged{Backend: memhold.New()}
	var entries []admin.Entry
	for i := range 900 {
		entries = append(entries, admin.Entry{Type: admin.EntryAcquired, Name: fmt.Sprint(i), At: time.Now()})
	}
	if err := store.AppendLog(t.Context(), admin.Client{Note: "a"}, entries); err != nil {
		t.Fatal(err)
	}
	read := func(f admin.LogFilter, stop int) (names []string, last string, failed error) {
		for e, err := range admin.From(store).Log(t.Context(), f) {
			if failed = err; err != nil {
				break
			}
			if names, last = append(names, e.Name), e.ID; len(names) == stop {
				break
			}
		}
		return names, last, failed
	}
	names, last, err := read(admin.LogFilter{Last: time.Hour, Limit: 7}, 0)
	if err != nil || !slices.Equal(names, []string{"0", "1", "2", "3", "4", "5", "6"}) || !slices.Equal(store.asked, []int{7}) {
		t.Errorf("got %q, %v, asked for %v; want the first 7", names, err, store.asked)
	}
	if names, _, err = read(admin.LogFilter{After: last, Limit: 2}, 0); err != nil || !slices.Equal(names, []string{"7", "8"}) {
		t.Errorf("after the seventh: got %q and %v, want 7 and 8", names, err)
	}
	if names, _, err = read(admin.LogFilter{Last: time.Hour}, 3); err != nil || len(names) != 3 {
		t.Errorf("got %d entries and %v, want the 3 that were asked for", len(names), err)
	}
}

func TestLogReadsPages(t *testing.T) {
	store := &twoPages{Backend: memhold.New()}
	var got []string
	var failed error
	for e, err := range admin.From(store).Log(t.Context(), admin.LogFilter{Last: time.Hour}) {
		if err != nil {
			failed = err
			break
		}
		got = append(got, e.ID)
	}
	if len(got) != 1000 || got[999] != "999" || !slices.Equal(store.after, []string{"", "999"}) {
		t.Errorf("got %d entries, asked after %q; want 1000, and then what follows the last", len(got), store.after)
	}
	if failed == nil || !strings.Contains(failed.Error(), "event log: down") {
		t.Errorf("got %v, want the error of the second page", failed)
	}
}

// twoPages has a full page, and then fails.
type twoPages struct {
	*memhold.Backend
	after []string
}

func (p *twoPages) ReadLog(_ context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if p.after = append(p.after, f.After); f.After != "" {
		return nil, errors.New("down")
	}
	page := make([]admin.Entry, f.Limit)
	for i := range page {
		page[i].ID = fmt.Sprint(i)
	}
	return page, nil
}
