package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	reopenFirst = 250 * time.Millisecond // the pause after the first attempt to reach a store
	reopenMost  = 2 * time.Second
	explainFor  = 2 * time.Second // how long the store may take to say what a name is
)

// openWaiting is openBackend, again and again while the store cannot be reached: for as
// long as --wait says, which this takes its time from, or until ctx ends for a candidate.
func (o *lockOptions) openWaiting(ctx context.Context, env output.Environment, report *output.Reporter, logger *slog.Logger) (driver.Backend, func(), error) {
	began := time.Now()
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		store, shut, err := o.openBackend(ctx, env, report, logger)
		waited := time.Since(began)
		var exit *output.ExitError
		if !errors.As(err, &exit) || exit.Code != output.ExitUnreachable || !o.campaigns && waited >= o.wait {
			if o.wait > 0 {
				o.wait = max(o.wait-waited, time.Millisecond)
			}
			return store, shut, err
		}
		if pause == reopenFirst {
			report.Line(output.LevelNotice, fmt.Sprintf("waiting for the store: %v", err))
		}
		if !o.campaigns {
			pause = min(pause, o.wait-waited)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, nil, err
		}
	}
}

// explainMismatch says what a name is that is in use for something else than the lock
// that the flags describe.
func (o *lockOptions) explainMismatch(err error) error {
	if !errors.Is(err, holdfast.ErrMismatch) || o.console == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainFor)
	defer cancel()
	found, unknown := o.console.Describe(ctx, o.name)
	switch {
	case unknown != nil || found.Kind == "":
		return &output.ExitError{Code: output.ExitUsage, Err: err}
	case found.Kind == admin.KindOther && len(found.Keys) > 0:
		advice := "choose another name"
		if found.Keys[0].Type == "string" {
			advice += ", or --layout plain if another program has a lock there"
		}
		return output.UsageError("lock %q: the store has a %s under that name, which is no lock of this layout; %s", o.name, found.Keys[0].Type, advice)
	}
	if found.Kind == admin.KindOther {
		return output.UsageError("lock %q: the store has something under that name which is no lock; choose another name", o.name)
	}
	return output.UsageError("lock %q is in use as a %s, and not as a %s: use the kind that the other programs use", o.name, nounOf(found.Kind), nounOf(o.kindName()))
}

// nounOf names a kind of lock in a sentence.
func nounOf(k admin.Kind) string {
	switch k {
	case admin.KindFair, admin.KindReadWrite, admin.KindMulti, admin.KindPlain, admin.KindTimestamp:
		return string(k) + " lock"
	default:
		return string(k)
	}
}

// kindName is what the flags ask for.
func (o *lockOptions) kindName() admin.Kind {
	switch {
	case o.permits > 0:
		return admin.KindSemaphore
	case o.shared, o.exclusive:
		return admin.KindReadWrite
	case o.fair:
		return admin.KindFair
	}
	return admin.KindMutex
}
