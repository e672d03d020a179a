package background_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/background"
)

func TestWaitReturnsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g background.Group
		if err := g.Wait(t.Context()); err != nil {
			t.Fatalf("with none: %v", err)
		}
		for range 2 { // a Group can be used again
			start := time.Now()
			for i := range 10 {
				g.Go(func() { time.Sleep(time.Duration(i) * time.Second) })
			}
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := g.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the context's error", err)
			}
			cancel()
			if err := g.Wait(t.Context()); err != nil {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); took != 9*time.Second {
				t.Errorf("returned after %v, want 9s", took)
			}
		}
	})
}
