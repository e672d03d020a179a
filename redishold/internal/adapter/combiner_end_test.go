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

// tardy is a context that has ended and has not said so yet: package context
// closes the channel of a parent before it ends the children.
type tardy struct {
	context.Context
	done chan struct{}
}

func (c tardy) Done() <-chan struct{} { return c.done }
func (c tardy) Err() error            { return nil }

type stuck struct{ free chan struct{} }

func (s stuck) Send(_ context.Context, calls []*redishold.Call, results []redishold.Result) {
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
