package work

import (
	"os"
	"runtime"
	"sync"
	"testing"
)

// cost returns what is used by n calls of do.
func cost(n int, do func()) (r Result) {
	before := used()
	for range n {
		do()
	}
	r.add(before, used())
	return r
}

// What a process does is counted once. Reading the counters counts, too, a few times.
func TestUsage(t *testing.T) {
	const n, few = 1000, 50
	check := func(what string, got, want uint64) {
		if got < want || got > want+few {
			t.Errorf("got %d %s, want %d, and %d more at most", got, what, want, few)
		}
	}
	check("starts", cost(n, func() {
		var wg sync.WaitGroup
		wg.Go(func() {})
		wg.Wait()
	}).Starts, n)

	ask, answer := make(chan int), make(chan int)
	defer close(ask)
	go func() {
		for range ask {
			answer <- 0
		}
	}()
	if got := cost(n, func() { ask <- 0; <-answer }).Runs; got < n || got > 4*n { // 2n where both always wait
		t.Errorf("got %d runs for %d questions to a goroutine", got, n)
	}

	if runtime.GOOS != "linux" {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	some := make([]byte, 2)
	both := cost(n, func() { _, _ = w.Write(some); _, _ = r.Read(some[:1]); _, _ = r.Read(some[:1]) })
	check("reads", both.Reads, 2*n)
	check("writes", both.Writes, n)
}
