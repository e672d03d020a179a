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

// masters is what atMaster needs of a Cluster.
type masters interface {
	Homes(ctx context.Context, calls []redishold.Call) []string
	Changed() <-chan struct{}
}

// atMaster is Guard for calls with one home. It also gives them up when another node
// is found to be their master, after redirectGrace: the former one may be gone without
// a word, and the time that a call has to answer is better spent at the new one.
func atMaster[T any](ctx context.Context, cluster masters, calls []redishold.Call, run func() T) (T, error) {
	var changed <-chan struct{}
	if cluster != nil {
		changed = cluster.Changed()
	}
	if changed == nil {
		return Guard(ctx, run)
	}
	home := func() string { return cluster.Homes(ctx, calls[:1])[0] }
	asked, answer := make(chan string, 1), make(chan T, 1)
	go func() {
		asked <- home()
		answer <- run()
	}()
	first := ""
	var late <-chan time.Time // when the call is given up
	for {
		var none T
		select {
		case v := <-answer:
			return v, nil
		case first = <-asked:
		case <-changed:
			if changed = cluster.Changed(); late == nil && first != "" && home() != first {
				timer := time.NewTimer(redirectGrace)
				defer timer.Stop()
				late = timer.C
			}
		case <-late:
			return none, errDeposed
		case <-ctx.Done():
			select {
			case v := <-answer: // both were ready: an answer is worth more than an end
				return v, nil
			default:
				return none, ctx.Err()
			}
		}
	}
}
