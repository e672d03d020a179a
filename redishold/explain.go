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
	maxExplained   = 64          // how many losses one call looks into
	explainTimeout = time.Second // how long that may take
)

// unexplained is a loss of which no more is known: the server cannot tell a key
// that expired from one that was deleted.
func unexplained() *driver.GoneError {
	return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "deleted or expired on the server"}
}

// lost says why a claim is gone that an earlier call had marked.
func tombstoneError(mark string) *driver.GoneError {
	if why, ok := strings.CutPrefix(mark, layout.ForcedPrefix); ok {
		return &driver.GoneError{Reason: driver.ReasonForced, Detail: "ended by force: " + clients.Printable(why)}
	}
	return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "given up before it was granted"}
}

// classifyHeld is classify for a claim that was held: where the key has become something
// else, the lock is gone.
func (b *Backend) classifyHeld(k layout.Keys, err error) error {
	err = b.layout.Classify(k, err)
	if errors.Is(err, driver.ErrMismatch) {
		return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "overwritten: " + err.Error()}
	}
	return err
}

// loss is a claim that is gone, and the error that says so.
type loss struct {
	claim *driver.Claim
	err   *error
}

// explain looks up why claims are gone, as many as is reasonable, and puts the reason
// into the error. Where it cannot be learnt that stays as it is.
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

// taker asks the server what may have taken keys away, nil if it knows of nothing. In a
// cluster the answer would be that of any node, so there it is not asked.
func (b *Backend) keyLoss(ctx context.Context, info ServerInfo) *driver.GoneError {
	b.clients.Forget() // who we are may be gone as well
	if info.Cluster {
		return nil
	}
	if now, err := b.conn.Server(ctx); err == nil {
		b.server.update(now)
	}
	return b.server.recentKeyLoss()
}
