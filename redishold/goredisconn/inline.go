package goredisconn

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

var _ adapter.Inliner = (*library)(nil)

// FewCalls implements adapter.Inliner. The number is low, because go-redis sends each call over
// a connection of its own. Six calls in one pipeline cost half as much as six calls over six
// connections. With eight goroutines, five was the best of two to sixteen.
func (l *library) FewCalls() int { return 5 }

// MayInline implements adapter.Inliner.
func (l *library) MayInline(time.Duration, int) bool { return l.inline }

// RunInline implements adapter.Inliner.
func (l *library) RunInline(_, timed context.Context, call *redishold.Call, _ bool) redishold.Result {
	return process(timed, l.client, eval(timed, call))
}
