package redishold

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

const (
	maxExplained   = 64 // maximal number of losses whose reasons one call of explain finds out
	explainTimeout = time.Second
)

// unexplained returns the error for a loss whose reason is not known. The text names no reason,
// because the server does not distinguish an expired key from a deleted one.
func unexplained() *driver.GoneError {
	return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "the key is gone from the server"}
}

// tombstoneError returns the error for a claim that has a tombstone. The parameter `text` is
// the text of the tombstone.
func tombstoneError(text string) *driver.GoneError {
	if reason, ok := strings.CutPrefix(text, layout.ForcedPrefix); ok {
		return &driver.GoneError{Reason: driver.ReasonForced, Detail: "ended by force: " + clients.Printable(reason)}
	}
	return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "given up before it was granted"}
}

// classifyHeld does the same as Layout.Classify, for a claim that was held. But if the key of
// the lock now has another type, it returns a *driver.GoneError, because the lock is lost.
func (b *Backend) classifyHeld(k layout.Keys, err error) error {
	err = b.layout.Classify(k, err)
	if errors.Is(err, driver.ErrMismatch) {
		return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "overwritten: " + err.Error()}
	}
	return err
}

// loss is a lost claim, with its error.
type loss struct {
	claim *driver.Claim
	err   *error
}

// explain finds out why claims were lost, but only for the first maxExplained losses. It
// replaces the error of each loss with one that has the reason. If the reason of a loss cannot
// be found, its error stays.
func (b *Backend) explain(ctx context.Context, info ServerInfo, losses ...loss) {
	losses = losses[:min(len(losses), maxExplained)]
	if len(losses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	calls := make([]Call, len(losses))
	for i, l := range losses {
		calls[i] = Call(b.forms.oneKey.Explain(b.layout.Keys(l.claim.Name), *l.claim))
	}
	keyLoss := sync.OnceValue(func() *driver.GoneError { return b.keyLoss(ctx, info) })
	for i, result := range b.do(ctx, calls...) {
		reply, err := parseExplain(result.Value)
		switch l := losses[i]; {
		case result.Err != nil || err != nil:
			b.log.Debug("redis: look up why a lock is gone", "lock", l.claim.Name, "error", errors.Join(result.Err, err))
		case reply.tombstone != "":
			*l.err = tombstoneError(reply.tombstone)
		case reply.holder != "":
			*l.err = &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: "now held by " + b.clients.DescribeOwner(ctx, reply.holder)}
		case reply.exists:
		case keyLoss() != nil:
			*l.err = keyLoss()
		case !reply.counter:
			*l.err = &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "the server lost its data (flushed or restarted empty)"}
		default:
			*l.err = unexplained()
		}
	}
}

// keyLoss returns the event of the server that may have removed keys, or nil if no such event is
// known. In a cluster it returns nil, because conn.Server may ask another node than the node
// that had the key.
func (b *Backend) keyLoss(ctx context.Context, info ServerInfo) *driver.GoneError {
	b.clients.Forget() // the registrations may be lost, too
	if info.Cluster {
		return nil
	}
	if now, err := b.conn.Server(ctx); err == nil {
		b.server.update(now)
	}
	return b.server.recentKeyLoss()
}
