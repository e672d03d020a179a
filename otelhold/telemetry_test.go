package otelhold_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/otelhold"
)

// TestMeaning compares all metrics of a program with locks: one was unlocked, one was lost,
// which Unlock found, and acquires failed in each possible way.
func TestMeaning(t *testing.T) {
	r := sdkmetric.NewManualReader()
	tel := telemetry(t, r, &otelhold.Options{Group: otelhold.GroupByPrefix, Elections: []string{"leader", "spare"}})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	lost := &holdfast.LostError{Name: "stock:2", Reason: driver.ReasonForced}
	for _, step := range []struct {
		ctx context.Context
		e   holdfast.Event
	}{
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Waited: 3 * time.Millisecond}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:2", Kind: "mutex", Waited: 40 * time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "leader", Kind: "fair", Waited: time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "42", Kind: "read", Err: &holdfast.BusyError{}}},
		{over, holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Err: fmt.Errorf("lock: %w", context.Canceled)}},
		{late, holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Err: fmt.Errorf("lock: %w", context.DeadlineExceeded)}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:1", Kind: "mutex", Err: fmt.Errorf("lock: %w", context.DeadlineExceeded)}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRenew, Name: "stock:2", Kind: "mutex", Margin: 17 * time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRenew, Name: "stock:2", Kind: "mutex", Margin: 4 * time.Second, Err: errors.New("i/o timeout")}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRenew, Name: "stock:2", Kind: "mutex", Margin: 3 * time.Second, Err: &driver.GoneError{Reason: driver.ReasonNotOwner}}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "stock:1", Kind: "mutex", HeldFor: 2 * time.Second}},
		{t.Context(), holdfast.Event{Type: holdfast.EventRelease, Name: "stock:2", Kind: "mutex", HeldFor: 20 * time.Second, Err: fmt.Errorf("unlock: %w", lost)}},
		{t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "stock:2", Kind: "mutex", HeldFor: 20 * time.Second, Reason: driver.ReasonForced, Err: lost}},
		{t.Context(), holdfast.Event{Type: "of a later version", Name: "stock:1", Kind: "mutex"}},
		// Three begin to wait; one of them still does.
		{t.Context(), holdfast.Event{Type: holdfast.EventWait, Name: "stock:7", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWait, Name: "stock:8", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWait, Name: "42", Kind: "read"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWake, Name: "stock:7", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWake, Name: "stock:7", Kind: "mutex"}},
		{t.Context(), holdfast.Event{Type: holdfast.EventWake, Name: "stock:7", Kind: "mutex", Notified: true}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "stock:7", Kind: "mutex", Blocked: true}},
		{t.Context(), holdfast.Event{Type: holdfast.EventAcquire, Name: "42", Kind: "read", Blocked: true, Err: &holdfast.BusyError{}}},
		// The end that the option FixedLease set is no loss.
		{t.Context(), holdfast.Event{Type: holdfast.EventLoss, Name: "stock:7", Kind: "mutex", HeldFor: 9 * time.Second, Reason: driver.ReasonExpired, Leased: true, Err: holdfast.ErrLost}},
		// Spans of calls come from the instrumentation of the client.
		{t.Context(), holdfast.Event{Type: holdfast.EventCall, Name: "stock:1", Kind: "mutex", Op: holdfast.OpTry, Took: time.Millisecond}},
		{t.Context(), holdfast.Event{Type: holdfast.EventIndeterminate, Name: "stock:1", Kind: "mutex", Op: holdfast.OpTry, Resolved: true}},
		{t.Context(), holdfast.Event{Type: holdfast.EventIndeterminate, Name: "stock:1", Kind: "mutex", Op: holdfast.OpRelease}},
	} {
		step.e.Backend = "memory"
		tel.Observe(step.ctx, step.e)
	}
	want := map[string]float64{
		"holdfast.acquire.duration[s] backend=memory election=leader kind=fair lock_group=leader outcome=acquired": 1,
		"holdfast.acquire.duration[s] backend=memory kind=mutex lock_group=stock outcome=acquired":                 3,
		"holdfast.acquire.duration[s] backend=memory kind=mutex lock_group=stock outcome=canceled":                 1,
		"holdfast.acquire.duration[s] backend=memory kind=mutex lock_group=stock outcome=error":                    1,
		"holdfast.acquire.duration[s] backend=memory kind=mutex lock_group=stock outcome=timeout":                  1,
		"holdfast.acquire.duration[s] backend=memory kind=read outcome=busy":                                       2,
		"holdfast.hold.duration[s] end=forced kind=mutex":                                                          1,
		"holdfast.hold.duration[s] end=fixed_lease kind=mutex":                                                     1,
		"holdfast.hold.duration[s] end=released kind=mutex":                                                        1,
		"holdfast.renew.margin[s] kind=mutex":                                                                      3,
		"holdfast.held[{lock}] kind=fair lock_group=leader":                                                        1,
		"holdfast.held[{lock}] kind=mutex lock_group=stock":                                                        0,
		"holdfast.waiting[{call}] kind=mutex lock_group=stock":                                                     1,
		"holdfast.waiting[{call}] kind=read":                                                                       0,
		"holdfast.wakeups[{wakeup}] source=notify":                                                                 1,
		"holdfast.wakeups[{wakeup}] source=poll":                                                                   2,
		"holdfast.indeterminate[{call}] op=try resolved=yes":                                                       1,
		"holdfast.indeterminate[{call}] op=try resolved=no":                                                        0,
		"holdfast.indeterminate[{call}] op=release resolved=yes":                                                   0,
		"holdfast.indeterminate[{call}] op=release resolved=no":                                                    1,
		"holdfast.renewals[{renewal}] outcome=ok":                                                                  1,
		"holdfast.renewals[{renewal}] outcome=error":                                                               1,
		"holdfast.renewals[{renewal}] outcome=late":                                                                0,
		"holdfast.renewals[{renewal}] outcome=not_owner":                                                           1,
		"holdfast.leader[{leader}] election=leader":                                                                1,
		"holdfast.leader[{leader}] election=spare":                                                                 0,
	}
	for _, reason := range []string{"closed", "deleted", "evicted", "expired", "not_owner", "refused", "unreachable"} {
		want["holdfast.lost[{lock}] reason="+reason] = 0
	}
	want["holdfast.lost[{lock}] reason=forced"] = 1
	if got := collect(t, r); !maps.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", table(got), table(want))
	}
}

// TestBeginning requires that the series for alerts are there, at 0, before the first event.
func TestBeginning(t *testing.T) {
	r := sdkmetric.NewManualReader()
	telemetry(t, r, &otelhold.Options{Elections: []string{"leader"}})
	got := collect(t, r)
	names := map[string]int{}
	for series, n := range got {
		name, _, _ := strings.Cut(series, "[")
		names[name]++
		if n != 0 {
			t.Errorf("%s: got %v, want 0", series, n)
		}
	}
	want := map[string]int{
		"holdfast.renewals": 4, "holdfast.lost": 8, "holdfast.wakeups": 2, "holdfast.indeterminate": 4, "holdfast.leader": 1,
	}
	if !maps.Equal(names, want) {
		t.Errorf("got series %v, want %v", names, want)
	}
}

// TestLocks counts the events of a Locker, up to a lock whose record is deleted.
func TestLocks(t *testing.T) {
	r := sdkmetric.NewManualReader()
	tel := telemetry(t, r, nil)
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		locker := holdfast.New(store, &holdfast.Options{Observe: tel.Observe})
		first := must.Lock(t, locker, "secret")
		breakLock(t, store, "secret")
		time.Sleep(11 * time.Second) // past the next renewal
		synctest.Wait()
		_ = first.Unlock()
		second := must.Lock(t, locker, "secret")
		if err := second.Unlock(); err != nil {
			t.Fatal(err)
		}
	})
	got := collect(t, r)
	for series, want := range map[string]float64{
		"holdfast.acquire.duration[s] backend=memory kind=mutex outcome=acquired": 2,
		"holdfast.held[{lock}] kind=mutex":                                        0,
		"holdfast.lost[{lock}] reason=forced":                                     1,
		"holdfast.hold.duration[s] end=forced kind=mutex":                         1,
		"holdfast.hold.duration[s] end=released kind=mutex":                       1,
	} {
		if n, ok := got[series]; !ok || n != want {
			t.Errorf("%s: got %v (it is there: %t), want %v", series, n, ok, want)
		}
	}
	for series := range got {
		if strings.Contains(series, "secret") {
			t.Errorf("%s carries the name of a lock", series)
		}
	}
}

// TestConcurrentUse is for the race detector. Each name has a group of its own.
func TestConcurrentUse(t *testing.T) {
	r := sdkmetric.NewManualReader()
	tel := telemetry(t, r, &otelhold.Options{Group: func(name string) string { return name }, HoldSpans: true})
	locker := holdfast.New(memhold.New(), &holdfast.Options{Observe: tel.Observe})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				lock, err := locker.Lock(t.Context(), fmt.Sprint("worker ", i, " lock ", j))
				if err == nil {
					err = lock.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	held := 0
	for series, n := range collect(t, r) {
		if strings.HasPrefix(series, "holdfast.held") {
			held++
			if n != 0 {
				t.Errorf("%s: got %v, want 0", series, n)
			}
		}
	}
	if held != 101 {
		t.Errorf("got %d values of lock_group, want 100 and %q", held, "other")
	}
}

// TestRefusedInstrument shows that the errors of a provider are returned.
func TestRefusedInstrument(t *testing.T) {
	tel, err := otelhold.New(&otelhold.Options{MeterProvider: refusing{noop.NewMeterProvider()}})
	if tel != nil || !errors.Is(err, errRefused) {
		t.Fatalf("got %v, %v, want the provider's error", tel, err)
	}
}

func telemetry(t *testing.T, r sdkmetric.Reader, opts *otelhold.Options) *otelhold.Telemetry {
	t.Helper()
	if opts == nil {
		opts = &otelhold.Options{}
	}
	opts.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))
	tel, err := otelhold.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// collect returns the sums, and the counts of histograms, by "name[unit] attributes".
func collect(t *testing.T, r *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Version == "" {
			t.Errorf("scope %s has no version", scope.Scope.Name)
		}
		for _, m := range scope.Metrics {
			name := fmt.Sprintf("%s[%s] ", m.Name, m.Unit)
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					got[name+text(p.Attributes)] = float64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got[name+text(p.Attributes)] = float64(p.Value)
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return got
}

func text(set attribute.Set) string {
	var words []string
	for _, kv := range set.ToSlice() {
		words = append(words, string(kv.Key)+"="+kv.Value.AsString())
	}
	return strings.Join(words, " ")
}

func table(m map[string]float64) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s: %v\n", key, m[key])
	}
	return b.String()
}

func breakLock(t *testing.T, store *memhold.Backend, name string) {
	t.Helper()
	records, err := store.Get(t.Context(), name)
	if err == nil && records[0].Holders == 1 {
		err = store.ForceUnlock(t.Context(), name, records[0].Holds[0].Holder, "test")
	}
	if err != nil || records[0].Holders != 1 {
		t.Fatalf("got %v, error %v, want one hold to end", records, err)
	}
}
