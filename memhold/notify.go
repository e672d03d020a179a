package memhold

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/document"
)

// listener is one call of Notify that has not ended.
type listener struct {
	client string
	ended  []uint64      // Claim.Seq of grants of which the client was not notified yet
	some   chan struct{} // capacity 1: gets a value when a grant is added to the field `ended`
}

// Notify calls the function `hint` with the Claim.Seq of each grant of the client that
// ForceUnlock or Drop ends. It returns the error of ctx when ctx ends.
func (b *Backend) Notify(ctx context.Context, client string, hint func(seq uint64)) error {
	if err := ended(ctx); err != nil {
		return err
	}
	l := &listener{client: client, some: make(chan struct{}, 1)}
	b.mu.Lock()
	b.listeners[l] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, l)
	}()
	for {
		select {
		case <-l.some:
			for _, seq := range b.ended(l) {
				hint(seq)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ended returns the field l.ended, and empties that field.
func (b *Backend) ended(l *listener) []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended := l.ended
	l.ended = nil
	return ended
}

// notify passes the end of g to the calls of Notify for g's client. The mutex is held.
func (b *Backend) notify(g document.Grant) {
	for l := range b.listeners {
		if l.client != g.Client {
			continue
		}
		l.ended = append(l.ended, g.Seq)
		select {
		case l.some <- struct{}{}:
		default:
		}
	}
}
