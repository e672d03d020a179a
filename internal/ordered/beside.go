package ordered

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// A reader beside the writer of the same caller is granted although other claims wait. If the
// writer is released first, the reader must still exclude the waiting claims. An entry of the
// reader would be behind their entries. So the reader has no entry of its own, but shares the
// entry of the writer. If the writer is released first, this entry stays, with Entry.Shared set,
// until the last such reader is released.

// tryBeside grants the claim of t if it is a reader, and if a writer of the same caller holds.
// `ok` reports whether tryBeside granted the claim.
func (e *Engine) tryBeside(ctx context.Context, t *attempt) (out driver.Outcome, ok bool, err error) {
	if t.label.Kind != Reader || t.Beside == "" || e.writerOf(t) == nil {
		return out, false, nil
	}
	if t.session, err = e.ready(ctx, t.TTL); err != nil {
		return out, false, err
	}
	queue, err := e.store.Queue(ctx, t.Name, 0, false)
	if errors.Is(err, driver.ErrGone) {
		e.lose(t.session.id) // the claim of the writer has ended, too: the reader queues in the next session
		return out, false, nil
	}
	if err != nil {
		return out, false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.writer(t)
	if w == nil {
		return out, false, nil
	}
	key := claimKey{t.Name, t.label.ID}
	if Find(queue, w.id) != 0 { // another program removed it
		delete(e.claims, key)
		return out, false, nil
	}
	k := e.claims[key]
	if k == nil {
		w.readersSoFar++
		k = &claim{claimKey: key, label: t.label, session: w.session, client: t.Client, seq: t.Seq, writer: w, order: min(w.readersSoFar, MaxTokens-1), held: true}
		w.readers = append(w.readers, k)
		e.claims[key] = k
	}
	return driver.Outcome{Granted: true, Token: tokenOf(w.order) + MaxTokens + k.order, ValidFor: validFor(t, e.session)}, true, nil
}

func (e *Engine) writerOf(t *attempt) *claim {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writer(t)
}

// writer returns the claim whose entry the reader t shares, or can share. It returns nil if
// the reader has an entry of its own, or if the writer does not hold. The caller holds the
// mutex.
func (e *Engine) writer(t *attempt) *claim {
	if k := e.claims[claimKey{t.Name, t.label.ID}]; k != nil {
		if k.releasing {
			return nil
		}
		return k.writer
	}
	w := e.claims[claimKey{t.Name, idOf(t.Beside)}]
	if w == nil || !w.held || w.releasing || w.session != e.session.id {
		return nil
	}
	return w
}

// leave records the release of k, a reader that shares the entry of a writer. `last` is true if
// no claim needs that entry any more. The caller holds the mutex.
func (k *claim) leave() (last bool) {
	k.releasing = true
	return k.writer.releasing && k.writer.activeReaders() == 0
}
