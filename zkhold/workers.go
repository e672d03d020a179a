package zkhold

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/background"
)

// mostIdle is how many goroutines of a link wait for the next call, at most. The calls of one
// lock need up to three goroutines at a time.
const mostIdle = 4

// workers run the calls of a link, which take no contexts, in goroutines. These goroutines stay
// for the next calls until the session has ended. The stack of a new goroutine would have to
// grow during each call, which took a seventh of the processor time of a lock.
type workers struct {
	calls      *background.Group // calls under way
	goroutines *background.Group // goroutines that run calls, or wait for the next call
	next       chan func()
	idle       atomic.Int32
	quit       <-chan struct{}
}

// Go runs the function `call` in a goroutine.
func (w *workers) Go(call func()) {
	w.calls.Begin()
	select {
	case w.next <- call:
	default:
		w.goroutines.Go(func() { w.run(call) })
	}
}

// run runs the function `call`, and then further calls. It ends when the session has ended, or
// when mostIdle other goroutines wait for a call.
func (w *workers) run(call func()) {
	for {
		call()
		w.calls.End()
		if w.idle.Add(1) > mostIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case call = <-w.next:
			w.idle.Add(-1)
		case <-w.quit:
			return
		}
	}
}
