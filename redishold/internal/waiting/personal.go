package waiting

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Personal waits for messages to one owner, on a channel that several owners share,
// and where it is not the only one that sends it, also on a channel of its own.
type Personal struct {
	Topics *Topics
	Owner  string

	Shared  string                              // the channel
	Address func(message string) (owner string) // whose a message on it is, "" if it is everybody's
	Own     string                              // the other channel

	shared, own *topic // nil before they are needed and after Close
	naps        poller // instead of messages
}

// Wait returns when something was heard since the Try that saw these versions of the
// two channels; last is what it answered. alone says that no message comes on the owner's
// own channel.
func (w *Personal) Wait(ctx context.Context, shared, own uint64, alone bool, last driver.Outcome) error {
	if w.shared == nil {
		w.shared = w.join()
	}
	if w.own == nil && !alone && w.Own != w.Shared {
		w.own = w.Topics.join(w.Own)
	}
	for {
		var others <-chan struct{}
		var since time.Time
		var ownErr error
		if w.own != nil { // before the other, which may be subscribed at once: both begin with the first Wait
			others, since, ownErr = w.Topics.state(w.own, own)
		}
		all, mine, done, err := w.state(shared)
		if err == nil && !done {
			done, err = !since.IsZero(), ownErr
		}
		if wire.Means(err, wire.MeansNoRight, wire.MeansNoCommand) {
			return w.naps.wait(ctx, pollMost, last)
		}
		if done || err != nil {
			return err
		}
		select {
		case <-all:
		case <-mine:
		case <-others:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join is that of topics for one of the owners that share a channel.
func (w *Personal) join() *topic {
	t := w.Topics.join(w.Shared)
	w.Topics.mu.Lock()
	defer w.Topics.mu.Unlock()
	t.address = w.Address
	t.mail.box(w.Owner).waits = true
	return t
}

// state is that of topics: mine is closed when the owner got a message, all when
// everybody may have missed something.
func (w *Personal) state(ahead uint64) (all, mine <-chan struct{}, done bool, err error) {
	all, _, err = w.Topics.state(w.shared, ahead)
	w.Topics.mu.Lock()
	defer w.Topics.mu.Unlock()
	box := w.shared.mail.box(w.Owner)
	done = err == nil && w.shared.state == Live && max(w.shared.version, box.version) > ahead
	return all, box.changed, done, err
}

// Last returns the last message to the owner, "" if there was none.
func (w *Personal) Last() string {
	if w.shared == nil {
		return ""
	}
	w.Topics.mu.Lock()
	defer w.Topics.mu.Unlock()
	return w.shared.mail.box(w.Owner).message
}

// Close gives up the waiter's shares of the subscriptions.
func (w *Personal) Close() {
	if w.shared != nil {
		w.Topics.mu.Lock()
		delete(w.shared.mail.boxes, w.Owner)
		w.Topics.mu.Unlock()
		w.Topics.leave(w.shared)
	}
	if w.own != nil {
		w.Topics.leave(w.own)
	}
	w.shared, w.own = nil, nil
}
