package work

import (
	"fmt"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// ScalePrefix begins the names of the works of Scale. The series and the number that grows follow,
// with a hyphen between them.
const ScalePrefix = "scale-"

// Series are the numbers that grow in the works of Scale.
const (
	Held      = "held"      // names that one process holds
	Waiters   = "waiters"   // goroutines of four processes that wait for one name
	Processes = "processes" // with four goroutines each, on 16 names
	Names     = "names"     // of which four processes of four goroutines want one at a time
	Bytes     = "bytes"     // of each name
)

// Scale returns the works in which one number grows, for curves.
func Scale() []Work {
	var list []Work
	add := func(series string, n int, title string, w Work) {
		w.Name, w.Title = fmt.Sprintf("%s%s-%d", ScalePrefix, series, n), fmt.Sprintf(title, n)
		list = append(list, w)
	}
	for _, n := range []int{1000, 10_000, 100_000} {
		add(Held, n, "names held by one process, a lease of 6 s: %d", Work{Kind: Keep, Names: n, TTL: lease / 5, Sample: 8 * short})
	}
	for _, n := range []int{4, 40, 400, 4000} {
		add(Waiters, n, "one name, waiters in 4 processes: %d", Work{Kind: One, Processes: 4, Goroutines: n / 4, Sample: 2 * short})
	}
	for _, n := range []int{1, 3, 10, 50} {
		add(Processes, n, "16 names, processes of 4 goroutines: %d", Work{Kind: Some, Names: 16, Processes: n, Goroutines: 4, Sample: 2 * short})
	}
	for _, n := range []int{1, 4, 16, 64, 256} {
		add(Names, n, "4 processes of 4 goroutines, names: %d", Work{Kind: Some, Names: n, Processes: 4, Goroutines: 4, Sample: 2 * short})
	}
	for _, n := range []int{10, 100, 1000, 10_000} {
		add(Bytes, n, "8 goroutines, names of their own, bytes in a name: %d", Work{Kind: Own, Goroutines: 8, NameBytes: n, Sample: short})
	}
	return complete(list)
}

// ScalePeer reports whether a peer is in the curves of Scale: the usual variant of each library.
func ScalePeer(s peer.Spec) bool {
	return !s.Full && s.Only == "" && s.Works == nil && s.Role != peer.Limit && s.Program == nil && s.Store() == peer.Redis
}
