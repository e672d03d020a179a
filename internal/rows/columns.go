package rows

import "time"

// Columns receives the columns of a row that a statement reads: name, owner, note, the last
// token, the number of tokens, the time since the grant, the remaining time of the lease, the
// owner whose lease was force unlocked last, the reason for that, and the waiters with commas
// between them. Times are in microseconds.
type Columns struct {
	Key                      string
	row                      Row
	last, tokens, held, rest int64
	waiters                  string
}

// Into returns the destinations of the columns, in the order of the columns.
func (c *Columns) Into() []any {
	r := &c.row
	return []any{&c.Key, &r.Owner, &r.Note, &c.last, &c.tokens, &c.held, &c.rest, &r.Forced, &r.Reason, &c.waiters}
}

// Row returns the row whose columns were stored last.
func (c *Columns) Row() Row {
	r := c.row
	r.Known, r.Waiters = true, Waiters(c.waiters)
	r.First, r.Last = uint64(c.last-c.tokens+1), uint64(c.last)
	r.HeldFor, r.Remaining = Duration(c.held), Duration(c.rest)
	return r
}

// Micros returns d in microseconds, rounded up.
func Micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// Duration returns `us` microseconds. If they are too many for a time.Duration, it returns the
// longest time.Duration of whole microseconds, with the same sign.
func Duration(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(max(us, -most), most)) * time.Microsecond
}
