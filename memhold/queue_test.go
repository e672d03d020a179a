package memhold

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func TestQueueSaysHowManyAreBefore(t *testing.T) {
	b := New()
	mustTry(t, b, fair(claim("a")))
	for want, owner := range []string{"b", "c", "d"} {
		for range 2 {
			if got := mustRefuse(t, b, fair(claim(owner))).Ahead.(ahead).before; got != want {
				t.Errorf("%s: got %d before it, want %d", owner, got, want)
			}
		}
	}
	mustRelease(t, b, fair(claim("c")))
	if got := mustRefuse(t, b, fair(claim("d"))).Ahead.(ahead).before; got != 1 {
		t.Errorf("d, after c gave up: got %d before it, want 1", got)
	}
}

func TestQueueWakesTheFirstAlone(t *testing.T) {
	b := New()
	mustTry(t, b, fair(claim("a")))
	first, second, third := mustRefuse(t, b, fair(claim("b"))), mustRefuse(t, b, fair(claim("c"))), mustRefuse(t, b, fair(claim("d")))
	expect := func(when string, want ...bool) {
		t.Helper()
		for i, o := range []driver.Outcome{first, second, third} {
			if got := calling(o); got != want[i] {
				t.Errorf("%s: place %d woken: %v, want %v", when, i, got, want[i])
			}
		}
	}
	expect("while another holds", false, false, false)
	mustRelease(t, b, fair(claim("d")))
	expect("after the last gave up, which has to know", false, false, true)
	mustRelease(t, b, fair(claim("a")))
	expect("after the release", true, false, true)
	mustRelease(t, b, fair(claim("b")))
	expect("after the first gave up", true, true, true)
	mustTry(t, b, fair(claim("c")))
}

func TestPlaceLastsAsLongAsItsClaimIsPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		gone, renewed, tried, late := fair(claim("gone")), fair(claim("renewed")), fair(claim("tried")), fair(claim("late"))
		mustTry(t, b, fair(claim("a")))
		mustRefuse(t, b, gone)
		mustRefuse(t, b, renewed)
		if o := mustRefuse(t, b, tried); o.RetryAfter != presence/3 {
			t.Errorf("got RetryAfter %v, want %v, to show that it is present", o.RetryAfter, presence/3)
		}
		mustRelease(t, b, fair(claim("a")))

		time.Sleep(presence - 1)
		if o := mustRefuse(t, b, tried); o.RetryAfter != 1 {
			t.Errorf("got RetryAfter %v, want 1ns, when the first is gone", o.RetryAfter)
		}
		if r := renew(t, b, renewed); r.Err != nil || r.ValidFor != presence {
			t.Errorf("Renew of a place: got %+v, want %v", r, presence)
		}
		mustRefuse(t, b, late)
		time.Sleep(time.Nanosecond)
		if err := renew(t, b, gone).Err; !errors.Is(err, driver.ErrGone) {
			t.Errorf("Renew of a place that has lapsed: got %v, want ErrGone", err)
		}
		for _, c := range []driver.Claim{renewed, tried} {
			mustRefuse(t, b, late)
			mustTry(t, b, c)
			mustRelease(t, b, c)
		}
		mustTry(t, b, late)
	})
}

func TestWaiterIsToldThatItLostItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		mustTry(t, b, fair(claim("a")))
		lost := mustRefuse(t, b, fair(claim("b")))
		time.Sleep(presence)
		mustRefuse(t, b, fair(claim("c")))
		if !calling(lost) {
			t.Error("a waiter without a place was left to wait")
		}
		if got := mustRefuse(t, b, fair(claim("b"))).Ahead.(ahead).before; got != 1 {
			t.Errorf("after it came back: got %d before it, want 1", got)
		}
	})
}

func TestFairPermits(t *testing.T) {
	b := New()
	held := []driver.Claim{fair(permit("a", 2)), fair(permit("b", 2))}
	mustTry(t, b, held[0])
	mustTry(t, b, held[1])
	mustRefuse(t, b, fair(permit("c", 2)))
	second := mustRefuse(t, b, fair(permit("d", 2)))
	mustRelease(t, b, held[0])
	mustRelease(t, b, held[1])
	mustRefuse(t, b, fair(permit("d", 2)))
	mustTry(t, b, fair(permit("c", 2)))
	if !calling(second) {
		t.Error("the second of the queue was not woken when it became the first, with a permit free")
	}
	mustTry(t, b, fair(permit("d", 2)))
}

func TestFairReadersAndWriters(t *testing.T) {
	b := New()
	w, mine := fair(writer("w")), fair(reader("mine"))
	mine.Beside = w.Owner
	mustTry(t, b, w)
	mustRefuse(t, b, fair(reader("r1")))
	mustRefuse(t, b, fair(writer("w2")))
	mustRefuse(t, b, fair(reader("r2")))
	again := fair(writer("again"))
	again.Beside = w.Owner
	mustRefuse(t, b, again)
	mustRelease(t, b, again)
	mustTry(t, b, mine) // it has the exclusive hold: in the queue it would wait for itself
	mustRelease(t, b, w)
	mustRefuse(t, b, fair(reader("r2"))) // behind a writer, although readers hold
	mustTry(t, b, fair(reader("r1")))
	mustRelease(t, b, mine)
	mustRefuse(t, b, fair(writer("w2")))
	mustRelease(t, b, fair(reader("r1")))
	mustTry(t, b, fair(writer("w2")))
}

func TestDropClearsTheQueue(t *testing.T) {
	b := New()
	mustTry(t, b, fair(claim("a")))
	first, second := mustRefuse(t, b, fair(claim("b"))), mustRefuse(t, b, fair(claim("c")))
	b.Drop("job")
	if !calling(first) || !calling(second) {
		t.Error("waiters were not told that the queue is gone")
	}
	mustTry(t, b, fair(claim("c")))
}
