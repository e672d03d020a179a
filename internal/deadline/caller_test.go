package deadline_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

// A context of Apart has its caller's values, outlives it, and knows it; so does what is
// made of it.
func TestApart(t *testing.T) {
	type key struct{}
	caller, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
	ctx := deadline.New(deadline.Apart(caller), time.Now().Add(time.Minute))
	defer ctx.End()
	cancel()
	if ctx.Err() != nil || ctx.Value(key{}) != "kept" || deadline.Caller(ctx).Err() == nil {
		t.Errorf("apart from a caller that gave up: got error %v, value %v, and %v of the caller", ctx.Err(), ctx.Value(key{}), deadline.Caller(ctx).Err())
	}
	if own := t.Context(); deadline.Caller(own) != own {
		t.Error("a context without a caller is that of its caller")
	}
}
