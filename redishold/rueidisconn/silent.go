package rueidisconn

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
)

const (
	// silentAfter is for how long the shared connection may owe an answer before calls are
	// sent over others. It is shorter than any call that is worth repeating.
	silentAfter = 300 * time.Millisecond
	// apartLimit is how long a call over another connection may take: it is closed then,
	// so that the pool does not lend it again.
	apartLimit = time.Second
)

// shared is the connection that all calls share. rueidis notices after about ten seconds,
// with its defaults, that nothing comes over it any more, and makes another only then.
type shared struct {
	mu       sync.Mutex
	underway int       // pipelines without an answer
	since    time.Time // when the first of them was sent, or another one ended
}

func (s *shared) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underway == 0 {
		s.since = time.Now()
	}
	s.underway++
}

func (s *shared) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underway--
	s.since = time.Now()
}

// silent reports whether an answer is overdue. It ends with any answer, and when rueidis
// gives the connection up.
func (s *shared) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underway > 0 && time.Since(s.since) > silentAfter
}

// sendApart sends calls over a connection of the pool, as rueidis does with what may block.
func (l *library) sendApart(ctx context.Context, calls []*redishold.Call, results []redishold.Result) {
	ctx, cancel := context.WithTimeout(ctx, apartLimit)
	defer cancel()
	commands := make([]rueidis.Completed, len(calls))
	for i, call := range calls {
		commands[i] = l.evalOver(call, i == 0)
	}
	for i, answer := range l.client.DoMulti(ctx, commands...) {
		results[i] = result(ctx, answer)
	}
}
