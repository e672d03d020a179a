package elect

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	// watchEvery is the time between two questions of a Watch.
	watchEvery = time.Second
	// watchLimit is the longest time that a Watch waits for an answer.
	watchLimit = 5 * time.Second
)

// Leader is the process that leads, as the store shows it. A zero Leader means that no process
// leads.
type Leader struct {
	Note  string // the holdfast.Options.Note of the leader
	Token uint64 // the fencing token of the term; 0 if the store does not know it
	owner string // the owner of the hold, for terms whose token is not known
}

// Watch returns the leaders of an election, for processes that do not lead. Its first Leader is
// the present one. Then there is a Leader each time that another term has begun or that a term
// has ended, until ctx ends or the loop is left.
//
// Watch asks the store once a second. So it yields a new leader up to a second late, and may miss
// a term that was shorter than a second. An error of the store comes with
// the Leader that was seen last, at most once a second, until the store answers again. If the
// store does not answer within 5 s, that is an error, too. The term of a Leader may have ended
// when Watch yields it: only the fencing token decides what that leader may write.
//
// Some stores show Note and Token only a few seconds after the beginning of a term. Then there
// is a second Leader for the same term, with the values that were missing.
func Watch(ctx context.Context, c *admin.Console, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		var last Leader
		for first := true; ctx.Err() == nil; first = false {
			now, err := leaderOf(ctx, c, name)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(last, err) {
					return
				}
			case first || now != last:
				last = now
				if !yield(now, nil) {
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}
}

// leaderOf asks the store who leads.
func leaderOf(ctx context.Context, c *admin.Console, name string) (Leader, error) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	records, err := c.Get(ctx, name)
	if err != nil {
		return Leader{}, err
	}
	if len(records) == 0 || records[0].Holders == 0 {
		return Leader{}, nil
	}
	hold := records[0].Holds[0]
	return Leader{Note: hold.Note, Token: hold.Token, owner: hold.Owner}, nil
}
