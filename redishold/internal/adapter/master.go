package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// errDeposed is the error of a call whose outcome is unknown: the former master may have run
// the call.
var errDeposed = errors.New("the node did not answer, and is not the master of the key any more")

// redirectGrace is how long a call goes on after another node has become the master of its key.
// If the slot has moved, the former master replies with a redirection in this time, and the
// client follows it.
const redirectGrace = 100 * time.Millisecond

// Masters finds the servers that take calls: the masters of a cluster, or the one master
// that Sentinels have named.
type Masters interface {
	// Home returns the address of the node that has a key, as far as the library knows, and "" if
	// the library does not know the node. The parameter `key` is "" for a call without keys.
	Home(ctx context.Context, key string) string

	// Suspect reports that a node did not reply as the master of its keys. The library should
	// find out the masters again. Suspect does not block.
	Suspect()

	// Changed returns a channel that is closed when the library has found other masters. Home
	// does not block after that. Changed returns nil while no poll is planned. If the library
	// itself ends the calls to a former master, Changed always returns nil.
	Changed() <-chan struct{}
}

// whileMaster runs calls for one node with the function `run`. It returns the results, or ctx's
// error as soon as ctx ends. The parameter m is nil if the master never changes.
//
// whileMaster also ends when another node has been the master of the calls for redirectGrace.
// Then it returns errDeposed, because the former master may never reply, and the caller needs
// the rest of its time for the new master.
func whileMaster(ctx context.Context, m Masters, calls []redishold.Call, run func() []redishold.Result) ([]redishold.Result, error) {
	var changed <-chan struct{}
	if m != nil {
		changed = m.Changed()
	}
	if changed == nil {
		return Guard(ctx, run)
	}
	home := func() string { return m.Home(ctx, Key(&calls[0])) }
	asked, answer := make(chan string, 1), make(chan []redishold.Result, 1)
	go func() {
		asked <- home()
		answer <- run()
	}()
	first := ""
	var late <-chan time.Time // fires when the calls are given up; nil while their master is the same
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
