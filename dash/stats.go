package dash

import "time"

// Stats are numbers about the locks, the store and the viewers of a Dashboard, from the last
// polls.
type Stats struct {
	Names   int // the number of names in use
	Held    int // the number of holds of these names, as far as they were read
	Waiting int // the number of waiters for these names, as far as the store shows them

	Viewers  int           // the number of open browsers and calls of Watch
	Answered time.Time     // when the store last answered; zero if the store has never answered
	Failing  time.Time     // when the store stopped answering; zero while it answers
	Answer   time.Duration // the median time of an answer, over the last two minutes
}

// Stats returns numbers from the last polls. It sends no request.
func (d *Dashboard) Stats() Stats {
	c := d.store.now()
	all := sum(d.table.All)
	d.mu.Lock()
	defer d.mu.Unlock()
	return Stats{
		Names: all.Names, Held: all.Held, Waiting: all.Waiting,
		Viewers: d.viewers, Answered: c.answered, Failing: c.failing, Answer: c.median,
	}
}
