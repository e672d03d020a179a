package ordered

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// A reader beside the writer of the same caller is granted although others wait, and
// excludes them when the writer has left before it. An entry of its own would stand
// behind theirs. So it has none: it stands on the writer's, which the writer leaves to
// it, marked as shared, and which the last of them removes.

// tryBeside grants t beside its writer, and reports whether it did.
func (e *Engine) tryBeside(ctx context.Context, t *attempt) (out driver.Outcome, ok bool, err error) {
	if t.mark.Kind != Reader || t.Beside == "" || e.writerOf(t) == nil {
		return out, false, nil
	}
	if t.at, err = e.ready(ctx, t.TTL); err != nil {
		return out, false, err
	}
	queue, err := e.store.Queue(ctx, t.Name, 0, false)
	if errors.Is(err, driver.ErrGone) {
		e.lose(t.at.id) // and its writer: the reader queues in the next session
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
	at := place{t.Name, t.mark.ID}
	if Find(queue, w.id) != 0 { // somebody removed it
		delete(e.claims, at)
		return out, false, nil
	}
	k := e.claims[at]
	if k == nil {
		w.beside++
		k = &claim{place: at, mark: t.mark, session: w.session, client: t.Client, seq: t.Seq, writer: w, order: min(w.beside, MaxTokens-1), held: true}
		w.readers = append(w.readers, k)
		e.claims[at] = k
	}
	return driver.Outcome{Granted: true, Token: tokenOf(w.order) + MaxTokens + k.order, ValidFor: validFor(t, e.session)}, true, nil
}

func (e *Engine) writerOf(t *attempt) *claim {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writer(t)
}

// writer returns the claim on whose entry the reader t stands, or can stand: nil if it
// has an entry of its own, or the writer does not hold. The mutex is held.
func (e *Engine) writer(t *attempt) *claim {
	if k := e.claims[place{t.Name, t.mark.ID}]; k != nil {
		if k.over {
			return nil
		}
		return k.writer
	}
	w := e.claims[place{t.Name, idOf(t.Beside)}]
	if w == nil || !w.held || w.over || w.session != e.session.id {
		return nil
	}
	return w
}

// leave ends a reader that stands on the entry of a writer. It reports whether that
// entry is needed no more. The mutex is held.
func (k *claim) leave() (last bool) {
	k.over = true
	return k.writer.over && k.writer.readersLeft() == 0
}
