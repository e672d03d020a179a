package pgtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
)

// A server can be paused while connections come and go, each of which has a process of
// its own there, and it goes on afterwards. One that is paused can be killed.
func TestPauseAmongConnections(t *testing.T) {
	t.Parallel()
	s, err := sqltest.RunPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if c, err := pgx.Connect(ctx, s.Name); err == nil {
					_ = c.Close(ctx)
				}
			}
		})
	}
	for i := range 60 {
		if err := s.Pause(); err != nil {
			t.Errorf("pause %d: %v", i, err)
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // connections come and go
	}
	if err := s.Pause(); err != nil {
		t.Error(err)
	}
	begun := await.NewWatch(t)
	s.Kill()
	if took := begun.Took(); took > 9*time.Second {
		t.Errorf("the end of a paused server took %v", took)
	}
	cancel()
	wg.Wait()
	if err := s.Restart(); err != nil {
		t.Error(err)
	}
}
