package examine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/uuid"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

const (
	scratchTTL = 10 * time.Second // the lease, if the scratch lock cannot be released
	tryLimit   = 10 * time.Second // for the scratch lock, with all its renewals
	giveBack   = 2 * time.Second  // for its release
	renewals   = 10
)

// tryOut takes a scratch lock, renews it a few times, and releases it. If a renewal fails
// after others have succeeded, its time counts, too.
func tryOut(ctx context.Context, b driver.Backend, o *doctor.Options) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	client := uuid.New()
	ttl := cmp.Or(b.Info().SessionTTL, max(scratchTTL, b.Info().MinTTL))
	c := driver.Claim{
		Name: o.Name + "holdfast-doctor", Client: client, Seq: 1, Owner: client + ":1",
		TTL: ttl, Count: 1, Tokens: 1, NoQueue: true, Note: "holdfast doctor",
	}
	out, err := b.Try(ctx, c)
	if errors.Is(err, driver.ErrNotExecuted) {
		return []doctor.Finding{notHad(err)}
	}
	c.Indeterminate = err != nil
	defer func() {
		// The lock is released even if ctx has ended. If that fails, its lease ends it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
		defer cancel()
		_ = b.Release(ctx, c)
	}()
	switch {
	case err != nil:
		return []doctor.Finding{notHad(err)}
	case !out.Granted:
		return []doctor.Finding{saw("locks", doctor.Unknown, "somebody holds %q, maybe another doctor: nothing was tried", c.Name)}
	}
	var slowest time.Duration
	for n := 0; err == nil && n < renewals; n++ {
		began := time.Now()
		if err = renew(ctx, b, c); err != nil && n == 0 {
			return []doctor.Finding{notHad(err)}
		}
		slowest = max(slowest, time.Since(began))
	}
	return []doctor.Finding{saw("locks", doctor.OK, "a lock can be had"), latency(slowest, o)}
}

func renew(ctx context.Context, b driver.Backend, c driver.Claim) error {
	answers, err := b.Renew(ctx, []driver.Claim{c})
	if err != nil {
		return err
	}
	return answers[0].Err
}

func notHad(err error) doctor.Finding {
	f := because(saw("locks", doctor.Danger, "no lock can be had: %v", err),
		"programs that use this store cannot lock", "the message says what is missing; what a user needs is in docs/stores.md")
	if errors.Is(err, rows.ErrNoTable) {
		f.Remedy = "create the table, or have holdfast make it, once: add create=true to the parameters of the URL"
	}
	return f
}

// latency compares the slowest renewal with the margin, as doctor does for Redis.
func latency(slowest time.Duration, o *doctor.Options) doctor.Finding {
	severity := reached(slowest, o.Margin/3, doctor.Note, o.Margin, doctor.Warning)
	return because(saw("latency", severity, "the slowest of %d renewals took %v", renewals, slowest.Round(time.Microsecond)),
		"renewals come too late, and a lock that is held counts as lost", "a longer lease, or a nearer server")
}
