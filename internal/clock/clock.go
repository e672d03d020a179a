// Package clock reads two clocks together, and says when a machine may have been
// suspended between two readings.
//
// A lease counts on the monotonic clock. Nobody can set that clock, so no deadline
// moves when somebody corrects the time of day. But it stands still while the machine
// is suspended: a lease of 30 seconds looks as long after a night as it did before,
// although the store has counted on and has given the lock to somebody else.
//
// The wall clock goes on during a suspension. But people and programs set it, so it
// cannot end a lease either. Therefore neither clock decides alone. Where the wall
// clock has run ahead of the monotonic clock by more than is tolerable, the lease is
// uncertain, and the caller that relies on it asks the store: see [Moment.Suspended].
//
// An [Instant] is a reading of the monotonic clock, and is what deadlines are made of.
// A [Moment] is a reading of both.
package clock

import "time"

// Longest bounds every duration that is added to an Instant: the sum of two of them
// and of the age of a process is still a Duration.
const Longest = 100 * 365 * 24 * time.Hour

// Instant is a time by the monotonic clock, counted from when its Clock was made less
// a second: no Instant that was read is 0, so 0 may stand for "never". It has a third
// of the size of a time.Time.
type Instant = time.Duration

// Moment is an Instant and the time of day at which it was read.
type Moment struct {
	Mono Instant
	wall time.Duration // since 1970
}

// Clock reads the clocks of this machine. Instants of different Clocks do not compare.
type Clock struct {
	epoch time.Time

	// Wall reads the wall clock; nil reads the system's. Tests simulate suspensions with
	// it: the wall clock runs while the monotonic clock stands still.
	Wall func() time.Time
}

// New returns a Clock.
func New() *Clock { return &Clock{epoch: time.Now().Add(-time.Second)} }

// Now reads the monotonic clock.
func (c *Clock) Now() Instant { return time.Since(c.epoch) }

// Read reads both clocks.
func (c *Clock) Read() Moment {
	now := time.Now()
	m := Moment{Mono: now.Sub(c.epoch), wall: time.Duration(now.UnixNano())}
	if c.Wall != nil {
		m.wall = time.Duration(c.Wall().UnixNano())
	}
	return m
}

// Time returns an Instant as a time.Time, for deadlines of contexts.
func (c *Clock) Time(i Instant) time.Time { return c.epoch.Add(i) }

// Suspended says that the machine may have been suspended for longer than tolerance
// between before and m: the wall clock ran so much further than the monotonic clock.
// It may also just have been set.
func (m Moment) Suspended(before Moment, tolerance time.Duration) bool {
	return (m.wall-before.wall)-(m.Mono-before.Mono) > tolerance
}

// Watch notices suspensions for a caller that reads the clocks again and again.
type Watch struct{ last Moment }

// Start makes now the reading with which the next one is compared.
func (w *Watch) Start(now Moment) { w.last = now }

// Suspended is Moment.Suspended since the last reading. Each suspension is noticed
// once.
func (w *Watch) Suspended(now Moment, tolerance time.Duration) bool {
	before := w.last
	w.last = now
	return now.Suspended(before, tolerance)
}
