package adapter

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/redishold"
)

// Runner runs calls with a Client. Where that has a single server, calls that are
// made one by one travel together.
type Runner struct {
	client   Client
	combiner *Combiner // nil for a cluster
	servers  *servers  // nil where calls always go to the same server, and for a cluster
}

// NewRunner returns a Runner over c.
func NewRunner(c Client) *Runner {
	r := &Runner{client: c}
	if c.Cluster() == nil {
		r.combiner = NewCombiner(c)
		if r.servers = newServers(c, r.combiner); r.servers != nil {
			r.combiner.doubt = r.servers.Doubt
		}
	}
	return r
}

// Do runs calls as redishold.Conn says.
func (r *Runner) Do(ctx context.Context, calls []redishold.Call) []redishold.Result {
	if len(calls) == 1 && r.combines(&calls[0]) {
		return []redishold.Result{r.combiner.DoOne(ctx, &calls[0])}
	}
	return r.run(ctx, calls)
}

// DoOne runs a call as redishold.Single says.
func (r *Runner) DoOne(ctx context.Context, call *redishold.Call) redishold.Result {
	if r.combines(call) {
		return r.combiner.DoOne(ctx, call)
	}
	return r.run(ctx, []redishold.Call{*call})[0]
}

// Begin runs a call as redishold.Beginner says.
func (r *Runner) Begin(ctx context.Context, call *redishold.Call) (finish func() redishold.Result) {
	if r.combines(call) {
		return r.combiner.Begin(ctx, call)
	}
	calls, answer := []redishold.Call{*call}, make(chan redishold.Result, 1)
	go func() { answer <- r.run(ctx, calls)[0] }()
	return func() redishold.Result { return <-answer }
}

// run runs calls that are not combined. Those to a server that is replaced meanwhile
// end.
func (r *Runner) run(ctx context.Context, calls []redishold.Call) []redishold.Result {
	if r.servers == nil || len(calls) == 0 {
		return Do(ctx, r.client, calls)
	}
	results, err := atMaster(ctx, r.servers, calls, func() []redishold.Result { return Do(ctx, r.client, calls) })
	if err != nil {
		results = Fail(len(calls), err)
	}
	if slices.ContainsFunc(results, func(r redishold.Result) bool { return doubtful(r.Err) }) {
		r.servers.Doubt()
	}
	return results
}

// Refused returns a finish for a call that failed before it was begun.
func Refused(err error) (finish func() redishold.Result) {
	return func() redishold.Result { return redishold.Result{Err: err} }
}

func (r *Runner) combines(call *redishold.Call) bool {
	return r.combiner != nil && call.Replicas == 0
}
