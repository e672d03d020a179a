package work

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// takers is how many goroutines take the names that are kept.
const takers = 64

// looks is how often in a sample all leases are looked at. Each look costs a
// hundred thousand names some milliseconds.
const looks = 5

// keep takes many names and watches what they cost. The process ends with them
// held: the parent empties the server.
func keep(p peer.Peer, plan Plan, before usage, parent parent) (Result, error) {
	held, err := takeAll(p, plan)
	if err != nil {
		return Result{}, err
	}
	with := settled()
	result := Result{
		Kept:       len(held),
		Goroutines: float64(with.goroutines-before.goroutines) / float64(len(held)),
		Memory:     float64(with.memory-before.memory) / float64(len(held)),
	}
	if err := parent.start(); err != nil {
		return result, err
	}
	begun, at := used(), time.Now()
	least := plan.Work.TTL
	for range looks {
		time.Sleep(time.Duration(plan.Sample) / looks)
		least = min(least, leastLeft(held))
	}
	result.Elapsed = time.Since(at)
	result.add(begun, used())
	result.LeastLeft = float64(least) / float64(plan.Work.TTL)
	if err := parent.finish(); err != nil {
		return result, err
	}
	for _, h := range held {
		if k, ok := h.(interface{ Err() error }); ok && k.Err() != nil {
			result.Violations++
		}
	}
	return result, nil
}

// leastLeft returns what is left of the lease that ends next, or the longest
// duration if the peer does not tell.
func leastLeft(held []peer.Held) peer.Duration {
	least := time.Duration(math.MaxInt64)
	for _, h := range held {
		if k, ok := h.(interface{ Remaining() time.Duration }); ok {
			least = min(least, k.Remaining())
		}
	}
	return peer.Duration(least)
}

func takeAll(p peer.Peer, plan Plan) ([]peer.Held, error) {
	held := make([]peer.Held, plan.Work.Names)
	errs := make([]error, takers)
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			for n := i; n < len(held) && errs[i] == nil; n += takers {
				held[n], errs[i] = p.Lock(context.Background(), fmt.Sprintf("keep:%d:%d", plan.Process, n))
			}
		})
	}
	wg.Wait()
	return held, errors.Join(errs...)
}
