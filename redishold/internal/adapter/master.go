package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// errDeposed is no answer: nobody knows whether the node has run the call.
var errDeposed = errors.New("the node did not answer, and is not the master of the key any more")

// redirectGrace is how long a call goes on after another node became its master. A
// slot that moved answers with a redirect, and the client follows it.
const redirectGrace = 100 * time.Millisecond

// Masters knows which servers take calls: those of a Cluster, or the one that
// Sentinels have named.
type Masters interface {
	// Homes returns for each call the address of the node that it belongs to, as
	// far as the library knows, and "" where it does not know.
	Homes(ctx context.Context, calls []redishold.Call) []string

	// Suspect says that a node did not answer as its master should: the library had
	// better look again where keys live. It does not block.
	Suspect()

	// Changed returns what is closed when other masters are found, and nil where nobody
	// looks, or where the library ends by itself the calls to a node that is not a master
	// any more. Homes does not block then.
	Changed() <-chan struct{}
}

// whileMaster runs calls with one home and returns what came of them, or ctx's error as
// soon as ctx ends. The masters are nil where there is one forever.
//
// It also gives calls up when another node is found to be their master, after
// redirectGrace: the former one may be gone without a word, and the time that a call
// has to answer is better spent at the new one.
func whileMaster(ctx context.Context, m Masters, calls []redishold.Call, run func() []redishold.Result) ([]redishold.Result, error) {
	var changed <-chan struct{}
	if m != nil {
		changed = m.Changed()
	}
	if changed == nil {
		return Guard(ctx, run)
	}
	home := func() string { return m.Homes(ctx, calls[:1])[0] }
	asked, answer := make(chan string, 1), make(chan []redishold.Result, 1)
	go func() {
		asked <- home()
		answer <- run()
	}()
	first := ""
	var late <-chan time.Time // when the calls are given up
	for {
		select {
		case results := <-answer:
			return results, nil
		case first = <-asked:
		case <-changed:
			if changed = m.Changed(); late == nil && first != "" && home() != first {
				late = time.After(redirectGrace)
			}
		case <-late:
			return nil, errDeposed
		case <-ctx.Done():
			return last(ctx, answer)
		}
	}
}
