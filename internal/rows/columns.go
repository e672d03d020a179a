package rows

import "time"

// Columns receives what a statement reads of a row of a table of Holdfast: name, owner,
// note, token, tokens, for how long it is held, and will be, what was forced, and why, and
// the waiters with commas between them. Times are in microseconds.
type Columns struct {
	Key                      string
	row                      Row
	last, tokens, held, rest int64
	waiters                  string
}

// Into returns where the columns go, in their order.
func (c *Columns) Into() []any {
	r := &c.row
	return []any{&c.Key, &r.Owner, &r.Note, &c.last, &c.tokens, &c.held, &c.rest, &r.Forced, &r.Reason, &c.waiters}
}

// Row returns the row that was read last.
func (c *Columns) Row() Row {
	r := c.row
	r.Known, r.Waiters = true, Waiters(c.waiters)
	r.First, r.Last = uint64(c.last-c.tokens+1), uint64(c.last)
	r.Held, r.Rest = Duration(c.held), Duration(c.rest)
	return r
}

// Micros returns d in microseconds, rounded up.
func Micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// Duration returns us microseconds, as far as a time.Duration has room for them.
func Duration(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(max(us, -most), most)) * time.Microsecond
}
