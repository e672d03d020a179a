// Package work says what is measured, and does it: in a process of its own, with
// one peer.
package work

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Kind is what the goroutines of a Work do.
type Kind string

// Kinds.
const (
	Own       Kind = "own"       // each locks a name of its own
	One       Kind = "one"       // all fight for one name
	Some      Kind = "some"      // each fights for one of several names, drawn anew each time
	Keep      Kind = "keep"      // many names are held, and nothing else happens
	All       Kind = "all"       // several names are taken together
	Shared    Kind = "shared"    // one read-write lock, mostly read
	Fair      Kind = "fair"      // one fair lock
	Semaphore Kind = "semaphore" // one semaphore
	Hear      Kind = "hear"      // a message is published and received: what a wake-up costs at least
)

// Work is one row of the measurements.
type Work struct {
	Name       string
	Title      string
	Kind       Kind
	Processes  int
	Goroutines int           // of each process
	Names      int           // Keep: held by each process; All: taken together; Some: all that there are
	NameBytes  int           // Own: the length of a name; 0 for a short one
	Permits    int           // Semaphore
	Delay      peer.Duration // what a network adds to a round trip to Redis
	Hold       peer.Duration // how long each lock is held; 0: not at all
	TTL        peer.Duration // of the locks
	Sample     peer.Duration // how long one sample lasts in the short set
	Short      bool          // belongs to the short set
}

// Needs returns what a peer must be able to do.
func (w Work) Needs() []peer.Ability {
	switch w.Kind {
	case One, Some:
		return []peer.Ability{peer.Waits}
	case Keep:
		return []peer.Ability{peer.Renews}
	case Shared:
		return []peer.Ability{peer.Shares}
	case Fair:
		return []peer.Ability{peer.Queues}
	case Semaphore:
		return []peer.Ability{peer.Counts}
	case Hear:
		return []peer.Ability{peer.Hears}
	default:
		return nil
	}
}

// Suits reports whether a peer can do the work.
func (w Work) Suits(s peer.Spec) bool {
	if w.Delay > 0 && s.Store() != peer.Redis {
		return false
	}
	if s.Works != nil && !slices.ContainsFunc(s.Works, func(begin string) bool { return strings.HasPrefix(w.Name, begin) }) {
		return false
	}
	needs := w.Needs()
	if s.Only != "" && !slices.Contains(needs, s.Only) {
		return false
	}
	for _, need := range needs {
		if !s.Is(need) {
			return false
		}
	}
	return true
}

const (
	lease = peer.Duration(30 * time.Second)
	short = peer.Duration(500 * time.Millisecond)
)

// List returns every Work, in the order of the tables.
func List() []Work {
	var list []Work
	for _, n := range []int{1, 8, 64, 512} {
		list = append(list, Work{
			Name: fmt.Sprintf("own-%d", n), Title: fmt.Sprintf("names of their own, goroutines: %d", n),
			Kind: Own, Goroutines: n, Sample: short, Short: true,
		})
	}
	for _, n := range []int{2, 16, 128, 1000} {
		list = append(list, Work{
			Name: fmt.Sprintf("one-%d", n), Title: fmt.Sprintf("one name, goroutines of one process: %d", n),
			Kind: One, Goroutines: n, Sample: short, Short: n == 16 || n == 1000,
		})
	}
	list = append(list, networks()...)
	list = append(list, crowds()...)
	list = append(list, kept()...)
	return complete(append(list, kinds()...))
}

// Stores returns every Work of the stores other than Redis, in the order of the tables.
func Stores() []Work {
	hold := peer.Duration(5 * time.Millisecond)
	return complete([]Work{
		{Name: "own-1", Title: "a name that nobody else wants", Kind: Own, Sample: 2 * short},
		{Name: "turns-4", Title: "one name, 4 processes, no hold", Kind: One, Processes: 4, Sample: 2 * short},
		{Name: "turns-4-5ms", Title: "one name held for 5 ms, 4 processes", Kind: One, Processes: 4, Hold: hold, Sample: 2 * short},
		{Name: "turns-16", Title: "one name, 16 processes, no hold", Kind: One, Processes: 16, Sample: 2 * short},
		{Name: "turns-16-5ms", Title: "one name held for 5 ms, 16 processes", Kind: One, Processes: 16, Hold: hold, Sample: 2 * short},
		{Name: "one-16", Title: "one name, 16 goroutines of one process", Kind: One, Goroutines: 16, Sample: short},
		{
			Name: "keep-1000", Title: "1,000 names held by one process, a lease of 6 s",
			Kind: Keep, Names: 1000, TTL: lease / 5, Sample: peer.Duration(4 * time.Second),
		},
	})
}

// complete fills in what a Work has where nothing else is said.
func complete(list []Work) []Work {
	for i := range list {
		list[i].Processes = max(1, list[i].Processes)
		list[i].Goroutines = max(1, list[i].Goroutines)
		if list[i].TTL == 0 {
			list[i].TTL = lease
		}
	}
	return list
}

// networks are names of their own behind a network. Its delay is as much longer as the way to
// another building, or to another zone of a cloud.
func networks() []Work {
	var list []Work
	for _, delay := range []time.Duration{300 * time.Microsecond, 2 * time.Millisecond} {
		for _, n := range []int{1, 8, 64, 512} {
			ms := strconv.FormatFloat(delay.Seconds()*1000, 'f', -1, 64)
			list = append(list, Work{
				Name: fmt.Sprintf("net-%sms-%d", ms, n), Title: fmt.Sprintf("names of their own, %s ms away, goroutines: %d", ms, n),
				Kind: Own, Goroutines: n, Delay: peer.Duration(delay), Sample: short,
			})
		}
	}
	return list
}

// crowds are one name and several processes.
func crowds() []Work {
	return []Work{
		{
			Name: "one-4x16", Title: "one name, 4 processes of 16 goroutines",
			Kind: One, Processes: 4, Goroutines: 16, Sample: 2 * short, Short: true,
		},
		{
			Name: "hold-4x25", Title: "one name held for 50 ms, 4 processes of 25 goroutines",
			Kind: One, Processes: 4, Goroutines: 25, Hold: peer.Duration(50 * time.Millisecond),
			Sample: peer.Duration(2 * time.Second), Short: true,
		},
		{
			Name: "hear", Title: "publish and receive a message, by one goroutine: what a wake-up takes at least",
			Kind: Hear, Sample: short, Short: true,
		},
	}
}

// kept are many names that are held. The short set renews five times as often, so
// that there is something to measure in a sample.
func kept() []Work {
	return []Work{
		{
			Name: "keep-10000", Title: "10,000 names held, a lease of 6 s",
			Kind: Keep, Names: 10_000, TTL: lease / 5, Sample: peer.Duration(4 * time.Second), Short: true,
		},
		{
			Name: "keep-100000", Title: "100,000 names held, a lease of 30 s",
			Kind: Keep, Names: 100_000, Sample: peer.Duration(20 * time.Second),
		},
	}
}

func kinds() []Work {
	var list []Work
	for _, n := range []int{2, 10, 100} {
		list = append(list, Work{
			Name: fmt.Sprintf("all-%d", n), Title: fmt.Sprintf("%d names taken together", n),
			Kind: All, Names: n, Sample: short, Short: n != 10,
		})
	}
	list = append(list, Work{
		Name: "shared-64", Title: "read-write lock, 64 goroutines, 1 write in 10",
		Kind: Shared, Goroutines: 64, Sample: short, Short: true,
	})
	for _, n := range []int{16, 128} {
		list = append(list, Work{
			Name: fmt.Sprintf("fair-%d", n), Title: fmt.Sprintf("fair lock, %d waiters in 4 processes", n),
			Kind: Fair, Processes: 4, Goroutines: n / 4, Sample: 2 * short, Short: true,
		})
	}
	return append(list, Work{
		Name: "semaphore-100", Title: "semaphore of 10 permits, 100 goroutines",
		Kind: Semaphore, Goroutines: 100, Permits: 10, Sample: short, Short: true,
	})
}
