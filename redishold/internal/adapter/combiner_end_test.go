package adapter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// tardy is a context that has ended, but whose Err is still nil: package context closes the
// channel of a parent before it ends the children.
type tardy struct {
	context.Context
	done chan struct{}
}

func (c tardy) Done() <-chan struct{} { return c.done }
func (c tardy) Err() error            { return nil }

type stuck struct{ free chan struct{} }

func (s stuck) Send(_ context.Context, _ Destination, calls []*redishold.Call, results []redishold.Result) {
	<-s.free
	for i := range calls {
		results[i].Value = int64(1)
	}
}

// A call returns with an error when its context has ended, also while the error of
// that is not to be had.
func TestEndWithoutAnError(t *testing.T) {
	for _, under := range []bool{false, true} { // a deadline.Context, or not
		synctest.Test(t, func(t *testing.T) {
			s := stuck{make(chan struct{})}
			c := NewCombiner(s)
			parent := tardy{t.Context(), make(chan struct{})}
			var ctx context.Context = parent
			if under {
				ctx = deadline.New(parent, time.Now().Add(time.Hour))
			}
			answer := make(chan redishold.Result, 1)
			go func() { answer <- c.DoOne(ctx, &redishold.Call{}) }()
			synctest.Wait()
			close(parent.done)
			synctest.Wait()
			select {
			case r := <-answer:
				if !errors.Is(r.Err, context.Canceled) {
					t.Errorf("got %+v, want Canceled", r)
				}
			default:
				t.Error("the call goes on although its context has ended")
			}
			close(s.free)
		})
	}
}

// keeper keeps the contexts of Send, which ends with them.
type keeper struct{ contexts []context.Context }

func (k *keeper) Send(ctx context.Context, _ Destination, _ []*redishold.Call, results []redishold.Result) {
	k.contexts = append(k.contexts, ctx)
	<-ctx.Done()
	for i := range results {
		results[i].Err = ctx.Err()
	}
}

// The context of a batch that has ended stays so: package context calls its method Err some
// time after its channel was closed, when the next batch may be in flight.
func TestEndOfABatchContextStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		c := NewCombiner(k)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c.DoOne(ctx, &redishold.Call{})
			cancel()
			synctest.Wait()
			for i, kept := range k.contexts {
				if kept.Err() == nil {
					t.Errorf("the context of batch %d of %d has no error after its end", i+1, len(k.contexts))
				}
			}
		}
	})
}
