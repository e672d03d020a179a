package goredisconn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

const (
	// inlineTimeout is how long go-redis waits for the reply to a call that runs in the
	// goroutine of its caller. go-redis does not end such a call when the context of the call
	// ends. So a call runs there only if at least twice that time is left until its deadline.
	inlineTimeout = 500 * time.Millisecond

	// fewCalls is low, because go-redis sends each call over a connection of its own. Five calls
	// in one pipeline cost half as much as five calls over five connections.
	fewCalls = 4
)

// inline is what a client for one server needs to run calls in the goroutines of their callers.
type inline struct {
	client *redis.Client // has inlineTimeout; nil if no call may run in the goroutine of its caller

	// called has, for each number of other calls in flight, when a call beside so many began
	// last: in ns since 1970, or 0 after an error.
	called [fewCalls]atomic.Int64
}

var _ adapter.Inliner = (*library)(nil)

// FewCalls implements adapter.Inliner.
func (l *library) FewCalls() int { return fewCalls }

// MayInline implements adapter.Inliner. Of the free connections, go-redis takes the one that was
// used last. So the connection for a call beside n others is fresh if such a call was made a
// moment ago.
func (l *library) MayInline(left time.Duration, inFlight int) bool {
	if l.inline.client == nil || left < 2*inlineTimeout {
		return false
	}
	now := time.Now().UnixNano()
	return now-l.inline.called[inFlight].Swap(now) < int64(adapter.FreshFor)
}

// RunInline implements adapter.Inliner. If the program has all connections of the pool in use,
// go-redis waits for one of them, and that wait ends with ctx.
func (l *library) RunInline(ctx, _ context.Context, call *redishold.Call, _ bool) redishold.Result {
	r := process(ctx, l.inline.client, eval(ctx, call))
	if r.Err != nil {
		for n := range l.inline.called {
			l.inline.called[n].Store(0)
		}
	}
	return r
}
