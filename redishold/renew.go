package redishold

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// renewChunk bounds how many claims share a round trip.
const renewChunk = 500

// What a renewal needs room for.
const (
	renewKeys = 2
	renewArgs = 4
)

// Renew extends the claims cs, pipelined. A claim that is gone is reported with
// what the server still shows of the reason.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	info, err := b.ask(ctx)
	if err != nil {
		return nil, err
	}
	renewals := make([]driver.Renewal, 0, len(cs))
	for chunk := range slices.Chunk(cs, renewChunk) {
		if b.options.Replicas != 0 && !info.Cluster && len(chunk) > 1 {
			renewals = append(renewals, b.renewFirst(ctx, info, chunk)...)
			continue
		}
		renewals = append(renewals, b.renewChunk(ctx, info, chunk)...)
	}
	b.explainLost(ctx, info, cs, renewals)
	return renewals, nil
}

func (b *Backend) renewChunk(ctx context.Context, info ServerInfo, cs []driver.Claim) []driver.Renewal {
	calls := make([]Call, len(cs), len(cs)+1)
	rooms := newRooms(len(cs), renewKeys, renewArgs)
	for i, c := range cs {
		calls[i] = b.form(c).renew(rooms.at(i), b.layout.key(c.Name), c)
	}
	renewals := make([]driver.Renewal, len(cs))
	for i, result := range b.doReplicated(ctx, info, calls, cs...) {
		renewals[i] = b.renewal(cs[i], result)
	}
	return renewals
}

func (b *Backend) renewal(c driver.Claim, result Result) driver.Renewal {
	few := shortOf(result)
	if few == nil && result.Err != nil { // it did not run
		return driver.Renewal{Err: b.notRenewed(c, result.Err)}
	}
	renewed, err := parseRenew(result.Value)
	if err != nil {
		return driver.Renewal{Err: err}
	}
	if !renewed {
		return driver.Renewal{Err: unexplained()}
	}
	if few != nil {
		return driver.Renewal{Err: unreplicated(few)}
	}
	return driver.Renewal{ValidFor: c.TTL}
}

// notRenewed is the end of a renewal that brought err instead of an answer.
func (b *Backend) notRenewed(c driver.Claim, err error) error {
	var few *tooFew
	if errors.As(err, &few) {
		return unreplicated(few)
	}
	return b.classifyHeld(b.layout.place(c.Name), err)
}
