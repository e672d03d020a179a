package rueidisconn

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// freshFor is how long a connection may be idle before a call in the goroutine of its caller. A
// connection that was idle for longer may be dead, and a call over it would be lost.
const freshFor = time.Second

// inline is what a client from Open needs to run calls in the goroutines of their callers. A
// call that finds no other call in flight uses a connection of the pool: then rueidis writes
// and reads in the goroutine of the caller, and the deadline is set on the socket. Other calls
// go straight into the pipeline of the shared connection.
type inline struct {
	sync bool   // a call may use the pool if no other call is in flight; false with Sentinels, where a call must also end when the master changes
	ping func() // the method library.ping, stored so that a call does not allocate

	pooled bool // the last call of MayInline chose the pool; the mutex of the Combiner guards it

	mu       sync.Mutex
	called   time.Time // the time of the last call
	used     time.Time // when a connection of the pool last answered
	checking bool      // a PING is under way
}

// fresh reports whether the connection of the pool that was used last has answered within
// freshFor. If not, but calls come often, fresh starts a PING over that connection, so that the
// next calls can use the connection.
func (i *inline) fresh() bool {
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	often := now.Sub(i.called) < freshFor
	i.called = now
	fresh := now.Sub(i.used) < freshFor
	if !fresh && often && !i.checking {
		i.checking = true
		go i.ping()
	}
	return fresh
}

// answered records whether a connection of the pool has answered.
func (i *inline) answered(ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.used = time.Now(); !ok {
		i.used = time.Time{}
	}
}

// ping sends a PING over the connection of the pool that was used last. Without a reply, rueidis
// closes that connection.
func (l *library) ping() {
	ctx, cancel := context.WithTimeout(context.Background(), freshFor)
	defer cancel()
	err := l.client.Do(ctx, l.client.B().Ping().Build()).Error()
	l.inline.answered(err == nil)
	l.inline.mu.Lock()
	defer l.inline.mu.Unlock()
	l.inline.checking = false
}

// FewCalls implements adapter.Inliner. rueidis sends calls of several goroutines over one
// connection, with few system calls. So a shared pipeline saves little until there are many.
func (l *library) FewCalls() int { return 16 }

// MayInline implements adapter.Inliner.
func (l *library) MayInline(_ time.Duration, inFlight int) bool {
	i := l.inline
	if i == nil {
		return false
	}
	if inFlight == 0 {
		i.pooled = i.sync && i.fresh()
		return i.pooled || l.sharedConn.fresh()
	}
	return l.sharedConn.fresh()
}

// RunInline implements adapter.Inliner.
func (l *library) RunInline(ctx, until context.Context, call *redishold.Call, alone bool) redishold.Result {
	if alone && l.inline.pooled {
		answer := l.client.Do(until, l.eval(call, false))
		l.inline.answered(answer.NonRedisError() == nil)
		return result(until, answer)
	}
	l.sharedConn.begin()
	replied := false // also if rueidis panics
	defer func() { l.sharedConn.end(replied) }()
	answer := l.client.Do(ctx, l.eval(call, false).ToPipe())
	replied = answer.NonRedisError() == nil
	return result(ctx, answer)
}
