package goredisconn

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

var _ adapter.Inliner = (*library)(nil)

// FewCalls implements adapter.Inliner. The number is low, because go-redis sends each call over
// a connection of its own. Five calls in one pipeline cost half as much as five calls over five
// connections.
func (l *library) FewCalls() int { return 4 }

// MayInline implements adapter.Inliner.
func (l *library) MayInline(time.Duration, int) bool { return l.inline }

// RunInline implements adapter.Inliner.
func (l *library) RunInline(_, timed context.Context, call *redishold.Call, _ bool) redishold.Result {
	return process(timed, l.client, eval(timed, call))
}
