package holdfast

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/stack"
)

// callDetached makes a call in a goroutine, under a context that ends after `limit`. If the
// call returns first, callDetached returns its answer. If ctx ends first, callDetached returns
// the detached try, which goes on. The function `sent` gets the answer, and reports whether the
// store may have received the call. The store's code gets ctx from deadline.Caller. If ctx ends
// before the store's code has sent the call, the store's code need not send the call any more.
// A panic of the call is raised again for the caller, or logged if the caller has given up. If ctx
// never ends, the caller cannot give up, and makes the call itself.
func callDetached[T any](ctx context.Context, l *Locker, limit time.Duration, call func(context.Context) T, sent func(T) bool) (answer T, unreturned *detachedTry) {
	if ctx.Done() == nil {
		bound, cancel := context.WithTimeout(deadline.Detach(ctx), limit)
		defer cancel()
		return call(bound), nil
	}
	c := &detachedCall[T]{detachedTry: detachedTry{done: make(chan struct{})}}
	go func() {
		stack.Grow()
		bound, cancel := context.WithTimeout(deadline.Detach(ctx), limit)
		defer cancel()
		defer func() { c.end(c.panics != nil || sent(c.answer)) }()
		if c.run(bound, call); c.panics != nil && c.abandoned {
			l.log.Error("the store panicked during a try whose caller had given up", "backend", l.info.Name, "panic", c.panics)
		}
	}()
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.abandon() {
			return answer, &c.detachedTry
		}
	}
	if c.panics != nil {
		panic(c.panics)
	}
	return c.answer, nil
}

// detachedCall is a detachedTry with the result of its call. The caller may read the result
// when the call has returned.
type detachedCall[T any] struct {
	detachedTry
	answer T
	panics any // the value with which the call panicked, or nil
}

// run makes the call. After it, the caller cannot give up any more.
func (c *detachedCall[T]) run(ctx context.Context, call func(context.Context) T) {
	defer func() {
		c.panics = recover()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.returned = true
	}()
	c.answer = call(ctx)
}

// detachedTry is a try that goes on if its caller gives up.
type detachedTry struct {
	done chan struct{} // closed when the try has returned

	mu        sync.Mutex
	returned  bool // the call has returned
	abandoned bool // the caller has given up before the call returned
	ended     bool
	sent      bool // the store may have received the call, as far as the answer shows
	callbacks []func(sent bool)
}

// abandon records that the caller gives up. It returns false if the call has returned before.
func (t *detachedTry) abandon() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.returned {
		return false
	}
	t.abandoned = true
	return true
}

// onReturn calls f at once if the try has returned. Otherwise the goroutine of the try calls
// f when the try returns, so that thousands of detached tries need no more goroutines.
func (t *detachedTry) onReturn(f func(sent bool)) {
	t.mu.Lock()
	ended := t.ended
	if !ended {
		t.callbacks = append(t.callbacks, f)
	}
	t.mu.Unlock()
	if ended {
		f(t.sent)
	}
}

// end records that the try has returned, and calls the functions that onReturn has stored.
func (t *detachedTry) end(sent bool) {
	t.mu.Lock()
	t.ended = true
	t.sent = sent
	callbacks := t.callbacks
	t.mu.Unlock()
	close(t.done)
	for _, f := range callbacks {
		f(sent)
	}
}

// maybeSent reports whether the store may have received the call with the result `a`.
func maybeSent(a driver.Attempt) bool { return a.Err == nil || !retry.Certain(a.Err) }
