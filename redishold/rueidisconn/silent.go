package rueidisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
)

const (
	// silentAfter is how long the shared connection may be without a reply before calls are
	// sent over other connections. It is shorter than the timeout of any call that is worth
	// repeating.
	silentAfter = 300 * time.Millisecond
	// pooledTimeout is how long a call over a connection of the pool may take. After this time
	// the connection is closed, so that the pool does not use it again.
	pooledTimeout = time.Second
)

// replies records when the server replies over the connection that all calls share, or over
// those of the pool. With its default settings, rueidis needs about ten seconds to notice that a
// connection is dead, and replaces it only then.
type replies struct {
	mu       sync.Mutex
	underway int          // number of pipelines without a reply
	since    time.Time    // when the first of these pipelines was sent, or when the latest pipeline ended, if that was later
	answered time.Time    // when the latest pipeline ended with a reply; zero if it ended without
	trip     atomic.Int64 // how many ns the latest call with a reply took that was a pipeline of its own

	closed *atomic.Int64 // number of connections that were closed; nil if nobody counts
	seen   int64         // that number when the latest pipeline ended
}

func (s *replies) begin() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.underway == 0 {
		s.since = now
	}
	s.underway++
	return now
}

// end records that a pipeline has ended, and whether the server has replied to it.
func (s *replies) end(replied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underway--
	if s.closed != nil {
		s.seen = s.closed.Load()
	}
	s.since = time.Now()
	if s.answered = s.since; !replied {
		s.answered = time.Time{}
	}
}

// fresh reports whether the latest pipeline got its reply within freshFor, and no connection was
// closed since. Otherwise rueidis may have to make a connection first, and neither that call nor
// one that waits for it returns when its context ends.
func (s *replies) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.answered) < freshFor && (s.closed == nil || s.closed.Load() == s.seen)
}

// silent reports whether a reply is overdue. It returns false again after any reply, and when
// rueidis has closed the connection.
func (s *replies) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underway > 0 && time.Since(s.since) > silentAfter
}

// do sends a command over the shared connection or over one of the pool.
func (l *library) do(ctx context.Context, over *replies, cmd rueidis.Completed) redishold.Result {
	began, replied := over.begin(), false // false also if rueidis panics
	defer func() { over.end(replied) }()
	answer := l.client.Do(ctx, cmd)
	replied = answer.NonRedisError() == nil
	if replied {
		over.trip.Store(int64(time.Since(began)))
	}
	return result(ctx, answer)
}

// sendPooled sends calls over a connection of the pool that rueidis has for commands that may
// block.
func (l *library) sendPooled(ctx context.Context, calls []*redishold.Call, results []redishold.Result) {
	ctx, cancel := context.WithTimeout(ctx, pooledTimeout)
	defer cancel()
	commands := make([]rueidis.Completed, len(calls))
	for i, call := range calls {
		commands[i] = l.eval(call, true)
	}
	for i, answer := range l.client.DoMulti(ctx, commands...) {
		results[i] = result(ctx, answer)
	}
}
