package waiting

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Personal waits for messages for one owner: on a channel that several owners share, and, if
// Redisson's clients may send a message, also on a channel of this owner only.
type Personal struct {
	Topics *Topics
	Owner  string

	Shared  Key                                 // has the channel of several owners
	Address func(message string) (owner string) // returns the owner that a message on Shared is for; "" if the message is for all owners
	Own     Key                                 // has the channel of this owner

	shared, own *topic // nil before the first use and after Close
	sleeps      poller // used if the user of Redis has no permission to subscribe
}

// Wait returns when a message was received after a Try. The parameters `shared` and `own` are
// the versions of the two channels before that Try, and `last` is the Outcome of that Try. If
// `alone` is true, no message can come on the owner's own channel.
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
		if w.own != nil { // the own channel comes first, so that its subscription begins now, even if the shared channel ends this Wait
			others, since, _, ownErr = w.Topics.retryTime(w.own, own)
		}
		all, mine, done, err := w.ready(shared)
		if err == nil && !done {
			done, err = !since.IsZero(), ownErr
		}
		if wire.Means(err, wire.MeansNoRight, wire.MeansNoCommand) {
			return w.sleeps.wait(ctx, pollMost, last)
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

// join adds the waiter to the topic of the shared channel.
func (w *Personal) join() *topic {
	t := w.Topics.join(w.Shared)
	w.Topics.mu.Lock()
	defer w.Topics.mu.Unlock()
	t.address = w.Address
	t.mail.box(w.Owner).waiting = true
	return t
}

// ready reports in `done` whether a message was received after the version `ahead` of the
// shared channel. If not, `mine` is closed when the owner gets a message, and `all` is closed
// when messages may have been missed.
func (w *Personal) ready(ahead uint64) (all, mine <-chan struct{}, done bool, err error) {
	all, _, _, err = w.Topics.retryTime(w.shared, ahead)
	w.Topics.mu.Lock()
	defer w.Topics.mu.Unlock()
	box := w.shared.mail.box(w.Owner)
	done = err == nil && w.shared.state == Live && max(w.shared.version, box.version) > ahead
	return all, box.changed, done, err
}

// Last returns the last message for the owner, or "" if there was none.
func (w *Personal) Last() string {
	if w.shared == nil {
		return ""
	}
	w.Topics.mu.Lock()
	defer w.Topics.mu.Unlock()
	return w.shared.mail.box(w.Owner).message
}

// Close removes the waiter from its topics.
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
