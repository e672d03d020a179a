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
//
// Where the program has closed the client, the claims are gone: nobody can extend
// them any more.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	renewals, err := b.renewAll(ctx, cs)
	if errors.Is(err, driver.ErrClosed) {
		renewals = make([]driver.Renewal, len(cs))
		for i := range renewals {
			renewals[i].Err = err
		}
		err = nil
	}
	for i := range renewals {
		if errors.Is(renewals[i].Err, driver.ErrClosed) {
			renewals[i].Err = &cutOff{renewals[i].Err}
		}
	}
	return renewals, err
}

func (b *Backend) renewAll(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
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
	var lost []int
	for i := range renewals {
		if err := renewals[i].Err; errors.Is(err, driver.ErrGone) && !isUnreplicated(err) {
			lost = append(lost, i)
		}
	}
	b.explainLost(ctx, info, cs, lost, func(i int) *error { return &renewals[i].Err })
	return renewals, nil
}

func (b *Backend) renewChunk(ctx context.Context, info ServerInfo, cs []driver.Claim) []driver.Renewal {
	renewals := make([]driver.Renewal, len(cs))
	l := b.layout
	o := order{
		alone: func(to room, i int) Call { return b.form(cs[i]).renew(to, l.key(cs[i].Name), cs[i]) },
		together: func(to room, at []int) Call {
			first := &cs[at[0]]
			keys, args := to.keys, append(to.args, l.lease(first.TTL), count(first.Holds))
			for _, i := range at {
				keys, args = append(keys, l.prefix+cs[i].Name), append(args, cs[i].Owner)
			}
			return Call{Script: b.scripts.renewAll, Keys: keys, Args: args}
		},
		room: func(n int) (keys, args int) { return max(n, renewKeys), max(2+n, renewArgs) },
	}
	for i, result := range b.doAll(ctx, info, cs, upTo(len(cs)), o, cs...) {
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
