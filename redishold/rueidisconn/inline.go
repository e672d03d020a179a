package rueidisconn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

var _ adapter.Interruptible = (*library)(nil)

// freshFor is how long a connection may be idle before a call in the goroutine of its caller. A
// connection that was idle for longer may be dead, and the call over it would be lost.
const freshFor = time.Second

// inline is what a client from Open needs to run calls in the goroutines of their callers. A
// call that finds no other call in flight uses a connection of the pool: then rueidis writes
// and reads in the goroutine of the caller, and the deadline is set on the socket. Other calls
// go straight into the pipeline of the shared connection.
type inline struct {
	sync    bool        // a call may use the pool if no other call is in flight; false with Sentinels, where a call must also end when the master changes
	ping    func()      // the method library.ping
	pinging atomic.Bool // a PING is under way

	called time.Time // when PlanInline was called last for a call that is alone; guarded by the mutex of the Combiner
}

// callCost is more than the processor time of a call that is a pipeline of its own.
const callCost = 20 * time.Microsecond

// FewCalls implements adapter.Inliner. rueidis sends calls of several goroutines over one
// connection, with few system calls. So a shared pipeline saves little until there are many. In
// a shared pipeline a caller waits for the replies to all calls. So where a round trip takes so
// long that the processor has time for a pipeline for each call, many are still few: up to half
// of the places for calls that rueidis has for a connection.
func (l *library) FewCalls() int {
	return min(max(16, int(time.Duration(l.shared.trip.Load())/callCost)), 1<<ringScale/2)
}

// PlanInline implements adapter.Inliner.
func (l *library) PlanInline(inFlight int) adapter.InlinePlan {
	if l.inline != nil && inFlight == 0 && l.inline.sync && l.poolIsFresh() {
		return adapter.OverOwn
	}
	return l.PlanInterruptible()
}

// PlanInterruptible implements adapter.Interruptible. While a call waits for its reply in the
// pipeline of the shared connection, rueidis returns as soon as the context ends.
func (l *library) PlanInterruptible() adapter.InlinePlan {
	if l.inline != nil && l.shared.fresh() && !l.shared.silent() {
		return adapter.OverShared
	}
	return adapter.NotInline
}

// poolIsFresh reports whether the connection of the pool that was used last has answered within
// freshFor. If not, but calls come often, it starts a PING over that connection, so that the next
// calls can use the connection.
func (l *library) poolIsFresh() bool {
	i := l.inline
	now := time.Now()
	often := now.Sub(i.called) < freshFor
	i.called = now
	fresh := l.pool.fresh()
	if !fresh && often && i.pinging.CompareAndSwap(false, true) {
		go i.ping()
	}
	return fresh
}

// ping sends a PING over the connection of the pool that was used last. Without a reply, rueidis
// closes that connection.
func (l *library) ping() {
	defer l.inline.pinging.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), freshFor)
	defer cancel()
	l.do(ctx, &l.pool, l.client.B().Ping().Build())
}

// RunInline implements adapter.Inliner.
func (l *library) RunInline(ctx context.Context, plan adapter.InlinePlan, call *redishold.Call) redishold.Result {
	if plan == adapter.OverOwn {
		return l.do(ctx, &l.pool, l.eval(call, false))
	}
	return l.do(ctx, &l.shared, l.eval(call, false).ToPipe())
}
