package document

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Resize sets the number of all permits of a semaphore. It creates the semaphore if the name is not
// in use, and wakes waiters if the number became larger. If more permits are held than the new
// number, their holders keep them. Purge comes before Resize.
func (d *Document) Resize(name string, permits int, now time.Time) error {
	if permits < 0 {
		return Refused("semaphore %q: cannot have %d permits", name, permits)
	}
	if err := d.Expect(name, Semaphore); err != nil {
		return err
	}
	more := permits > d.Permits
	d.Kind, d.Permits = Semaphore, permits
	if more {
		d.free(now)
	}
	return nil
}

// Free returns how many permits of a semaphore are not held. The number is negative if more permits
// are held than there are.
func (d *Document) Free() int { return d.Permits - len(d.Grants) }

// SetCount sets the count of a latch to n, unless the count is not 0, and reports whether it did.
func (d *Document) SetCount(name string, n int64) (bool, error) {
	if n < 1 {
		return false, Refused("latch %q: cannot count down from %d", name, n)
	}
	if err := d.Expect(name, Latch); err != nil {
		return false, err
	}
	if d.Count > 0 {
		return false, nil
	}
	d.Kind, d.Count = Latch, n
	return true, nil
}

// CountDown lowers the count of a latch by one. At 0 the latch opens, which wakes waiters. On an
// open latch CountDown changes nothing.
func (d *Document) CountDown(name string, now time.Time) error {
	if err := d.Expect(name, Latch); err != nil || d.Count == 0 {
		return err
	}
	if d.Count--; d.Count == 0 {
		d.free(now)
		d.tidy()
	}
	return nil
}

// Answer is what a call on a latch has returned.
type Answer struct {
	Call    string // the parameter `call` of the methods of driver.Latcher
	Set     bool
	Expires time.Time
	Renewed uint64 // Document.Revision when Expires was set
}

// Remember is how long a Document remembers the answer to a call on a latch, and at least how long
// it remembers a grant that Force has ended.
const Remember = 5 * time.Second

// SetCountOnce does what SetCount does. A repetition with the same value of `call` returns the first
// result, for the time Remember. Purge comes before SetCountOnce.
func (d *Document) SetCountOnce(name, call string, n int64, now time.Time) (bool, error) {
	if a := d.answered(call); a != nil && n > 0 {
		return a.Set, nil
	}
	set, err := d.SetCount(name, n)
	if err == nil {
		d.answer(call, set, now)
	}
	return set, err
}

// CountDownOnce does what CountDown does. A repetition with the same value of `call` has no effect,
// for the time Remember. Purge comes before CountDownOnce.
func (d *Document) CountDownOnce(name, call string, now time.Time) error {
	if d.answered(call) != nil {
		return nil
	}
	err := d.CountDown(name, now)
	if err == nil {
		d.answer(call, false, now)
	}
	return err
}

func (d *Document) answered(call string) *Answer {
	i := slices.IndexFunc(d.Answers, func(a Answer) bool { return a.Call == call })
	if i < 0 {
		return nil
	}
	return &d.Answers[i]
}

func (d *Document) answer(call string, set bool, now time.Time) {
	d.Answers = append(d.Answers, Answer{Call: call, Set: set, Expires: now.Add(Remember), Renewed: d.Revision})
}

// Refused returns the error for a call that a store refuses, however often it is repeated.
func Refused(format string, args ...any) error {
	return fmt.Errorf("%s: %w, %w", fmt.Sprintf(format, args...), driver.ErrRefused, driver.ErrNotExecuted)
}
