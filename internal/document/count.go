package document

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// Resize sets the number of all permits of a semaphore. It creates the semaphore if the name is not
// in use, and wakes waiters if the number became larger. If more permits are held than the new
// number, their holders keep them. Purge comes before Resize.
func (d *Document) Resize(name string, permits int) error {
	if permits < 0 {
		return Refused("semaphore %q: cannot have %d permits", name, permits)
	}
	if err := d.Expect(name, Semaphore); err != nil {
		return err
	}
	more := permits > d.Permits
	d.Kind, d.Permits = Semaphore, permits
	if more {
		d.free()
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
func (d *Document) CountDown(name string) error {
	if err := d.Expect(name, Latch); err != nil || d.Count == 0 {
		return err
	}
	if d.Count--; d.Count == 0 {
		d.free()
		d.tidy()
	}
	return nil
}

// Refused returns the error for a call that a store refuses, however often it is repeated.
func Refused(format string, args ...any) error {
	return fmt.Errorf("%s: %w, %w", fmt.Sprintf(format, args...), driver.ErrRefused, driver.ErrNotExecuted)
}
