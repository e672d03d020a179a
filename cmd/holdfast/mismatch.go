package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

const (
	explainFor = 2 * time.Second // how long the store may take to say what a name is
)

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
