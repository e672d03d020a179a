package rows

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// How many calls of each kind an Engine has under way at once, each with a connection of
// its own; there is also one look of the hub, and in some databases one that listens. Four
// processes fit into the hundred connections that PostgreSQL has by default. Renewals and
// releases have lanes of their own: they never stand behind those who wait.
const (
	triesMost    = 8
	releasesMost = 8
	renewalsMost = 3
)

// lane bounds calls of one kind. A nil lane bounds nothing.
type lane chan struct{}

// enter waits until there is room. Its error says that nothing was sent: ctx has ended, or
// the caller has given up, who stands apart from ctx.
func (l lane) enter(ctx context.Context) error {
	if l == nil {
		return nil
	}
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	caller := deadline.Caller(ctx)
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unsent.Error(ctx.Err())
	case <-caller.Done():
		return unsent.Error(caller.Err())
	}
}

func (l lane) leave() {
	if l != nil {
		<-l
	}
}
