package adapter

import (
	"context"

	"github.com/holdfast-go/holdfast/redishold"
)

// Runner runs calls with a Client. Where that has a single server, calls that are
// made one by one travel together.
type Runner struct {
	client   Client
	combiner *Combiner // nil for a cluster
}

// NewRunner returns a Runner over c.
func NewRunner(c Client) *Runner {
	r := &Runner{client: c}
	if c.Cluster() == nil {
		r.combiner = NewCombiner(c)
	}
	return r
}

// Do runs calls as redishold.Conn says.
func (r *Runner) Do(ctx context.Context, calls []redishold.Call) []redishold.Result {
	if len(calls) == 1 && r.combines(&calls[0]) {
		return []redishold.Result{r.combiner.DoOne(ctx, &calls[0])}
	}
	return Do(ctx, r.client, calls)
}

// DoOne runs a call as redishold.Single says.
func (r *Runner) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	if r.combines(call) {
		return r.combiner.DoOne(ctx, call)
	}
	return Do(ctx, r.client, []redishold.Call{*call})[0]
}

// Begin runs a call as redishold.Beginner says.
func (r *Runner) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	if r.combines(call) {
		return r.combiner.Begin(ctx, call)
	}
	calls, answer := []redishold.Call{*call}, make(chan redishold.Result, 1)
	go func() { answer <- Do(ctx, r.client, calls)[0] }()
	return func() redishold.Result { return <-answer }
}

// Refused returns a finish for a call that failed before it was begun.
func Refused(err error) (finish func() redishold.Result) {
	return func() redishold.Result { return redishold.Result{Err: err} }
}

func (r *Runner) combines(call *redishold.Call) bool {
	return r.combiner != nil && call.Replicas == 0
}
