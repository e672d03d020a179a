package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// suspendable is a Clock of a machine that can be suspended, and whose wall clock can be
// set. In the bubble of a test both clocks are the same.
type suspendable struct {
	*clock.Clock
	ahead time.Duration
}

func newSuspendable() *suspendable {
	s := &suspendable{Clock: clock.New()}
	s.Wall = func() time.Time { return time.Now().Add(s.ahead) }
	return s
}

func TestInstantsCountTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.New()
		first, at := c.Now(), time.Now()
		if first <= 0 {
			t.Errorf("the first instant is %v, want more than 0, which stands for never", first)
		}
		if got := c.Time(first); !got.Equal(at) {
			t.Errorf("the first instant is at %v, want %v", got, at)
		}
		time.Sleep(time.Hour)
		if got := c.Now() - first; got != time.Hour {
			t.Errorf("%v after an hour, want an hour", got)
		}
		if got := c.Read().Mono - first; got != time.Hour {
			t.Errorf("a moment says %v after an hour, want an hour", got)
		}
	})
}

// Two of the longest durations can be added to the age of a process.
func TestLongestDurationsCanBeAdded(t *testing.T) {
	age := 50 * 365 * 24 * time.Hour
	if end := age + clock.Longest + clock.Longest; end < age {
		t.Errorf("the sum is %v", end)
	}
}

func TestSuspended(t *testing.T) {
	const tolerance = time.Second
	for name, test := range map[string]struct {
		passes, steps time.Duration // of both clocks, and of the wall clock alone
		want          bool
	}{
		"nothing happened":            {0, 0, false},
		"time passed":                 {time.Hour, 0, false},
		"a small step":                {time.Hour, tolerance, false},
		"more than is tolerable":      {0, tolerance + 1, true},
		"while time passed":           {time.Hour, tolerance + 1, true},
		"the wall clock was set back": {time.Hour, -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newSuspendable()
				before := c.Read()
				time.Sleep(test.passes)
				c.ahead += test.steps
				if got := c.Read().Suspended(before, tolerance); got != test.want {
					t.Errorf("got %v, want %v", got, test.want)
				}
			})
		})
	}
}

// Small steps do not add up to a suspension, and each suspension is reported once.
func TestWatchNoticesEachSuspensionOnce(t *testing.T) {
	const tolerance = time.Second
	synctest.Test(t, func(t *testing.T) {
		c := newSuspendable()
		var w clock.SuspendDetector
		w.Start(c.Read())
		for i := range 10 {
			c.ahead += tolerance
			if w.Suspended(c.Read(), tolerance) {
				t.Errorf("small step %d was taken for a suspension", i)
			}
		}
		c.ahead += time.Hour
		if !w.Suspended(c.Read(), tolerance) {
			t.Error("the suspension was not noticed")
		}
		if w.Suspended(c.Read(), tolerance) {
			t.Error("the suspension was noticed twice")
		}
		c.ahead -= time.Hour
		if w.Suspended(c.Read(), tolerance) {
			t.Error("a clock that was set back was taken for a suspension")
		}
		c.ahead += time.Hour
		w.Start(c.Read())
		if w.Suspended(c.Read(), tolerance) {
			t.Error("what came before Start was noticed")
		}
	})
}

// Without another wall clock, that of the system is read: both clocks agree.
func TestSystemClocksAgree(t *testing.T) {
	c := clock.New()
	before := c.Read()
	if c.Read().Suspended(before, time.Minute) {
		t.Error("the clocks of this machine are a minute apart")
	}
}
