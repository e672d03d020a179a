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

// tryOut takes a scratch lock, renews it a few times, and releases it.
func tryOut(ctx context.Context, b driver.Backend, o Options) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	client := uuid.New()
	ttl := cmp.Or(b.Info().SessionTTL, max(scratchTTL, b.Info().MinTTL))
	c := driver.Claim{
		Name: o.Name + "holdfast-doctor", Client: client, Seq: 1, Owner: client + ":1",
		TTL: ttl, Count: 1, Tokens: 1, NoQueue: true, Note: "holdfast doctor",
	}
	granted, slowest, err := holdOnce(ctx, b, c)
	switch {
	case err != nil && slowest == 0:
		return []doctor.Finding{notHad(err)}
	case err == nil && !granted:
		return []doctor.Finding{saw("locks", doctor.Unknown, "somebody holds %q, maybe another doctor: nothing was tried", c.Name)}
	}
	return []doctor.Finding{saw("locks", doctor.OK, "a lock can be had"), latency(slowest, o)}
}

// holdOnce takes the lock, renews it a few times, and releases it. It returns whether the
// lock was granted, and how long the slowest renewal took. slowest is 0 if the first renewal
// failed. If a later renewal fails, its time counts, too.
func holdOnce(ctx context.Context, b driver.Backend, c driver.Claim) (granted bool, slowest time.Duration, err error) {
	out, err := b.Try(ctx, c)
	granted = err == nil && out.Granted
	c.Indeterminate = err != nil
	defer func() {
		if errors.Is(err, driver.ErrNotExecuted) && !granted {
			return
		}
		// The lock is released even if ctx has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
		defer cancel()
		if left := b.Release(ctx, c); !errors.Is(left, driver.ErrGone) {
			err = errors.Join(err, left)
		}
	}()
	for n := 0; err == nil && granted && n < renewals; n++ {
		began := time.Now()
		var answers []driver.Renewal
		if answers, err = b.Renew(ctx, []driver.Claim{c}); err == nil {
			err = answers[0].Err
		}
		if err == nil || n > 0 {
			slowest = max(slowest, time.Since(began))
		}
	}
	return granted, slowest, err
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
func latency(slowest time.Duration, o Options) doctor.Finding {
	s := doctor.OK
	switch {
	case slowest >= o.Margin:
		s = doctor.Warning
	case slowest >= o.Margin/3:
		s = doctor.Note
	}
	return because(saw("latency", s, "the slowest of %d renewals took %v", renewals, slowest.Round(time.Microsecond)),
		"renewals come too late, and a lock that is held counts as lost", "a longer lease, or a nearer server")
}
