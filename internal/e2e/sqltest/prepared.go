//go:build unix

package sqltest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

// Store is a store that keeps its locks in a table.
type Store interface {
	// CreateTable makes the table, if there is none.
	CreateTable(ctx context.Context) error
	// Drain returns when nothing of the store runs any more, or when ctx ends.
	Drain(ctx context.Context) error
}

// Prepared makes the table of b, and waits for b at the end of t.
func Prepared[B Store](t testing.TB, b B) B {
	t.Helper()
	if err := b.CreateTable(await.Context(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
	})
	return b
}
