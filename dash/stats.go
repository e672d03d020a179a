package dash

import "time"

// Stats is what a Dashboard has seen, as numbers. They are those of the last time
// that it watched.
type Stats struct {
	Names   int // that are in use
	Held    int // holds of these, as far as they were looked at
	Waiting int // waiters for them, as far as the store shows

	Viewers  int           // browsers that look now, and calls of Watch
	Answered time.Time     // when the store last answered; zero if it never did
	Failing  time.Time     // since when it does not; zero while it does
	Answer   time.Duration // the median time that it took, over the last two minutes
}

// Stats returns what was seen so far. It asks nobody.
func (d *Dashboard) Stats() Stats {
	c := d.store.now()
	s := Stats{Answered: c.answered, Failing: c.failing, Answer: c.median}
	s.Held, s.Waiting = d.table.totals()
	_, s.Names, _ = d.table.all(func(*entry) bool { return false })
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Viewers = d.viewers
	return s
}
