package redishold

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// renewChunk is the maximal number of claims in one round trip.
const renewChunk = 500

// Renew extends the leases of the claims cs in pipelines. If a claim is gone, Renew finds out
// the reason, as far as the server shows that reason.
//
// If the program has closed the client, the claims count as gone, because their leases cannot be
// extended any more.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	renewals := make([]driver.Renewal, 0, len(cs))
	info, err := b.ask(ctx)
	if errors.Is(err, driver.ErrClosed) {
		return slices.Repeat([]driver.Renewal{{Err: &cutOff{err}}}, len(cs)), nil
	}
	if err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(cs, renewChunk) {
		if b.options.Replicas != 0 && !info.Cluster && len(chunk) > 1 {
			renewals = append(renewals, b.renewFirst(ctx, info, chunk)...)
			continue
		}
		renewals = append(renewals, b.renewChunk(ctx, info, chunk)...)
	}
	var losses []loss
	for i := range renewals {
		if err := renewals[i].Err; retry.Gone(err) && retry.ReasonOf(err) == driver.ReasonDeleted {
			losses = append(losses, loss{&cs[i], &renewals[i].Err})
		}
	}
	b.explain(ctx, info, losses...)
	return renewals, nil
}

func (b *Backend) renewChunk(ctx context.Context, info ServerInfo, cs []driver.Claim) []driver.Renewal {
	renewals := make([]driver.Renewal, len(cs))
	m := b.newBatchBuf()
	for i := range cs {
		m.at = append(m.at, i)
	}
	m.fill(1, 3, func(buf kinds.Buffers, i int) wire.Call {
		return b.forms.of(cs[i]).Renew(buf, b.layout.LockOnly(cs[i].Name), cs[i])
	})
	for i, result := range b.doAll(ctx, info, b.doReplicated, m, cs) {
		renewals[i] = b.renewal(cs[i], result)
	}
	b.recycle(m)
	return renewals
}

func (b *Backend) renewal(c driver.Claim, result Result) driver.Renewal {
	few := shortOf(result)
	if few == nil && result.Err != nil { // the script was not executed
		return driver.Renewal{Err: b.notRenewed(c, result.Err)}
	}
	reply, err := parseRenew(result.Value)
	switch {
	case err != nil:
		return driver.Renewal{Err: err}
	case reply == notHeld:
		return driver.Renewal{Err: unexplained()}
	case reply == takenOver:
		return driver.Renewal{Err: &driver.GoneError{
			Reason: driver.ReasonNotOwner,
			Detail: "another client has taken a read-write lock of this name, and Redisson does not keep the two kinds of lock apart: use one kind for each name",
		}}
	case few != nil:
		return driver.Renewal{Err: unreplicated(few)}
	}
	return driver.Renewal{ValidFor: c.TTL}
}

// notRenewed returns the error for the renewal of c, if the script of this renewal returned no
// result. The parameter `err` is the error of the call.
func (b *Backend) notRenewed(c driver.Claim, err error) error {
	var few *tooFew
	switch {
	case errors.As(err, &few):
		return unreplicated(few)
	case errors.Is(err, driver.ErrClosed):
		return &cutOff{err}
	}
	return b.classifyHeld(b.layout.Keys(c.Name), err)
}

// cutOff is the error of a claim that can no longer be renewed, because the program has closed
// the Redis client.
type cutOff struct{ error }

// Unwrap returns the GoneError for the claim, and the error of the client.
func (e *cutOff) Unwrap() []error {
	return []error{&driver.GoneError{Reason: driver.ReasonClosed, Detail: e.Error()}, e.error}
}
