package ordered

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// listenDelay is the longest pause before the Engine calls Store.Forced again.
const listenDelay = 5 * time.Second

// ForceUnlock removes the entry of the holder h. The removal wakes waiters. If readers share
// that entry, they all lose their holds.
func (e *Engine) ForceUnlock(ctx context.Context, name string, h admin.Holder, reason string) error {
	p, _, err := readQueue(ctx, e.store, name, math.MaxInt)
	if err != nil {
		return err
	}
	holders := p.holders
	i := slices.IndexFunc(holders, func(e Entry) bool { return e.owner() == h.Owner })
	if i < 0 {
		return gone(driver.ReasonDeleted, "that hold is over, or has changed")
	}
	id := holders[i].Label.ID
	if id == "" {
		id = idOf(h.Owner)
	}
	switch ended, err := e.store.Force(ctx, holders[i], id, reason); {
	case err != nil:
		return err
	case !ended:
		return gone(driver.ReasonDeleted, "that hold is over, or has changed")
	}
	return nil
}

// ForceReasons returns a reason for each element of `ended`, in the same order: the reason with
// which ForceUnlock ended the hold. The reason is "" if ForceUnlock did not end the hold, or if
// the store does not keep the reason any more.
func (e *Engine) ForceReasons(ctx context.Context, ended []admin.Ended) ([]string, error) {
	reasons, errs := make([]string, len(ended)), make([]error, len(ended))
	background.Each(len(ended), parallelCalls, func(i int) {
		id := idOf(strings.TrimSuffix(ended[i].Owner, besideOwner))
		reasons[i], _, errs[i] = e.store.Reason(ctx, ended[i].Name, id)
	})
	return reasons, errors.Join(errs...)
}

// forced returns a *driver.GoneError with the reason if ForceUnlock removed the entry of the
// claim with that key. It returns nil if ForceUnlock did not remove the entry, or if the store
// does not return a reason.
func (e *Engine) forced(ctx context.Context, key claimKey) error {
	reason, found, err := e.store.Reason(ctx, key.name, key.id)
	if err != nil || !found {
		return nil
	}
	return gone(driver.ReasonForced, "ended by force: "+reason)
}

// listen calls `hint` with the sequence number of each claim of the client that ForceUnlock
// ends. It returns when ctx ends.
func (e *Engine) listen(ctx context.Context, client string, hint func(seq uint64)) {
	for failures := 1; ; failures++ {
		began := time.Now()
		err := e.store.Forced(ctx, func(name, id string) {
			for _, seq := range e.seqsOf(claimKey{name, id}, client) {
				hint(seq)
			}
		})
		if retry.Final(err) {
			<-ctx.Done()
			return
		}
		if time.Since(began) > listenDelay {
			failures = 1
		}
		if !retry.Sleep(ctx, retry.Delay(failures, listenDelay)) {
			return
		}
	}
}

// seqsOf returns the sequence numbers of the claim with that key, and of the readers that share
// its entry. It leaves out claims of other clients, and claims whose release has begun.
func (e *Engine) seqsOf(key claimKey, client string) (seqs []uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.claims[key]
	if k == nil {
		return nil
	}
	for _, c := range append([]*claim{k}, k.readers...) {
		if !c.releasing && c.client == client {
			seqs = append(seqs, c.seq)
		}
	}
	return seqs
}
