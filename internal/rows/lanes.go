package rows

import (
	"context"
	"sync"

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

// nameLanes lets one call at a time change the row of a name: hundreds of waiters that give
// up would stand in the server's queue for the row, before the renewal of its holder.
type nameLanes struct {
	mu    sync.Mutex
	lanes map[string]*nameLane
}

type nameLane struct {
	lane
	users int // calls in it, or before it
}

// enter waits until no other call is in the lane of name. Its error says that nothing was
// sent.
func (n *nameLanes) enter(ctx context.Context, name string) (leave func(), err error) {
	n.mu.Lock()
	l := n.lanes[name]
	if l == nil {
		if n.lanes == nil {
			n.lanes = make(map[string]*nameLane)
		}
		l = &nameLane{lane: make(lane, 1)}
		n.lanes[name] = l
	}
	l.users++
	n.mu.Unlock()
	drop := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(n.lanes, name)
		}
	}
	if err := l.enter(ctx); err != nil {
		drop()
		return nil, err
	}
	return func() {
		l.leave()
		drop()
	}, nil
}
