package goredisconn

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

var _ adapter.Inliner = (*library)(nil)

// FewCalls implements adapter.Inliner. The number is low, because go-redis sends each call over
// a connection of its own. Six calls in one pipeline cost half as much as six calls over six
// connections. With eight goroutines, five was the best of two to sixteen.
func (l *library) FewCalls() int { return 5 }

// PlanInline implements adapter.Inliner.
func (l *library) PlanInline(int) adapter.InlinePlan {
	if l.inline {
		return adapter.OverOwn
	}
	return adapter.NotInline
}

// RunInline implements adapter.Inliner.
func (l *library) RunInline(ctx context.Context, _ adapter.InlinePlan, call *redishold.Call) redishold.Result {
	return process(ctx, l.client, eval(ctx, call))
}
