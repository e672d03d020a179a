// Package clock reads two clocks together, and finds out when the machine may have been
// suspended between two readings.
//
// The time of a lease is measured with the monotonic clock. Nobody can set that clock, so no
// deadline moves when somebody corrects the time of day. But the monotonic clock stands still
// while the machine is suspended. After a night, the rest of a lease seems as long as before,
// although the lease has ended in the store, which may have granted the lock to another client.
//
// The wall clock goes on during a suspension. But people and programs set it, so it cannot
// end a lease either. Therefore neither clock decides alone. If the wall clock has run ahead
// of the monotonic clock by more than a tolerance, the lease is uncertain, and the caller
// asks the store: see [Moment.Suspended].
//
// An [Instant] is a reading of the monotonic clock. All deadlines are Instants. A [Moment]
// is a reading of both clocks.
package clock

import "time"

// Longest bounds every duration that is added to an Instant. So the sum of two such durations
// and of the age of a process does not overflow.
const Longest = 100 * 365 * 24 * time.Hour

// Instant is a time of the monotonic clock. It counts from one second before its Clock was
// made, so no reading is 0, and 0 can mean "never". An Instant has a third of the size of a
// time.Time.
type Instant = time.Duration

// Moment is an Instant and the time of day at which it was read.
type Moment struct {
	Mono Instant
	wall time.Duration // the time since 1970
}

// Clock reads the clocks of this machine. Instants of different Clocks cannot be compared.
type Clock struct {
	epoch time.Time

	// Wall reads the wall clock. If it is nil, the Clock reads the wall clock of the system.
	// Tests simulate suspensions with a Wall that runs while the monotonic clock stands still.
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

// Suspended reports whether the machine may have been suspended between the Moment `before` and
// m. It returns true if the wall clock ran further than the monotonic clock, by more than the
// tolerance. Another reason for that may be that somebody set the wall clock.
func (m Moment) Suspended(before Moment, tolerance time.Duration) bool {
	return (m.wall-before.wall)-(m.Mono-before.Mono) > tolerance
}

// SuspendDetector finds suspensions for a caller that reads the clocks repeatedly.
type SuspendDetector struct{ last Moment }

// Start records the reading with which the next one is compared.
func (d *SuspendDetector) Start(now Moment) { d.last = now }

// Suspended calls Moment.Suspended with the last reading, and records the reading `now` as the
// last one. So it reports each suspension once.
func (d *SuspendDetector) Suspended(now Moment, tolerance time.Duration) bool {
	before := d.last
	d.last = now
	return now.Suspended(before, tolerance)
}
