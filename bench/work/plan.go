package work

import (
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Plan is what a process has to do.
type Plan struct {
	Peer    string
	Target  peer.Target
	Work    Work
	Process int           // its number, from 0
	Sample  peer.Duration // how long to measure; 0: until Pairs are done
	Pairs   int           // how many pairs are done by all goroutines together
	Warm    peer.Duration // how long to work before that, if Sample is not 0
	Page    string        // the file that the processes of a sample share
}

// Result is what a process has measured.
type Result struct {
	Pairs   int64
	Each    []int64 // pairs of each goroutine
	Turns   int64   // pairs before which another process had the one name
	Elapsed time.Duration
	Longest time.Duration // that anybody waited for the one name; 0 where names are not shared
	Latency *Latencies    // of Lock and Unlock, of some or all pairs; nil where locks are held, or pairs are counted
	Dead    *Latencies    // from the begin of an unlock to the next holder, where locks are held

	CPU    time.Duration // of the process
	Allocs uint64
	Bytes  uint64
	Starts uint64 // of goroutines
	Runs   uint64 // how often a goroutine went on, after a start or a wait; an estimate
	Reads  uint64 // system calls; 0 where the system does not count them, as only Linux does
	Writes uint64

	Kept       int     // names that were held
	Goroutines float64 // more than before, for each of them
	Memory     float64 // the same in bytes
	LeastLeft  float64 // of a lease, before it was renewed, as a part of the TTL; 1 if the peer does not tell

	Violations int64 // moments with more holders than there may be, and locks that were lost
	Error      string
}
