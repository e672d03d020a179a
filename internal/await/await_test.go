package await_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

// recorder is a test that notes how it failed.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// outcome returns how a test fails that does what check does, "" if it passes.
func outcome(check func(testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.failed
}

func TestAwait(t *testing.T) {
	after := func(d time.Duration) func() bool {
		at := time.Now().Add(d)
		return func() bool { return !time.Now().Before(at) }
	}
	// paused answers like cond, but the answer of 998ms comes 10ms late.
	paused := func(cond func() bool) func() bool {
		at := time.Now().Add(998 * time.Millisecond)
		return func() bool {
			holds := cond()
			if time.Now().Equal(at) {
				time.Sleep(10 * time.Millisecond)
			}
			return holds
		}
	}
	for name, test := range map[string]struct {
		check func(testing.TB)
		took  time.Duration
		want  string
	}{
		"comes":            {func(t testing.TB) { await.Until(t, time.Second, "it", after(time.Millisecond)) }, 2 * time.Millisecond, ""},
		"is there":         {func(t testing.TB) { await.Until(t, 0, "it", after(0)) }, 0, ""},
		"does not come":    {func(t testing.TB) { await.Until(t, time.Second, "it", after(time.Hour)) }, 1002 * time.Millisecond, "not within 1s: it"},
		"comes at last":    {func(t testing.TB) { await.Until(t, time.Second, "it", after(time.Second)) }, time.Second, ""},
		"comes in a pause": {func(t testing.TB) { await.Until(t, time.Second, "it", paused(after(999*time.Millisecond))) }, 1010 * time.Millisecond, ""},
		"stays away":       {func(t testing.TB) { await.Never(t, time.Second, "it", after(time.Hour)) }, 1002 * time.Millisecond, ""},
		"comes although":   {func(t testing.TB) { await.Never(t, time.Second, "it", after(10*time.Millisecond)) }, 10 * time.Millisecond, "after 10ms, which must not be: it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if got := outcome(test.check); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}
