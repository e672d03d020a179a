package deadline_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

// A detached context has its caller's values and finds its caller, but does not end with it.
// The same is true for contexts that are derived from it.
func TestDetach(t *testing.T) {
	type key struct{}
	caller, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
	ctx := deadline.New(deadline.Detach(caller), time.Now().Add(time.Minute))
	defer ctx.End()
	cancel()
	if ctx.Err() != nil || ctx.Value(key{}) != "kept" || deadline.Caller(ctx).Err() == nil {
		t.Errorf("detached from a caller that gave up: got error %v, value %v, and %v of the caller", ctx.Err(), ctx.Value(key{}), deadline.Caller(ctx).Err())
	}
	if own := t.Context(); deadline.Caller(own) != own {
		t.Error("the caller of a context that is not detached is another context")
	}
}
