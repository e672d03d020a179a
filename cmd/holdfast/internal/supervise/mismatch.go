package supervise

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// explainFor is how long the store may take to say what a name is.
const explainFor = 2 * time.Second

// explainMismatch says what a name is that is in use for something else than the lock
// that the flags describe.
func (s *session) explainMismatch(err error) error {
	if !errors.Is(err, holdfast.ErrMismatch) || s.console == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainFor)
	defer cancel()
	found, unknown := s.console.Describe(ctx, s.Name)
	switch {
	case unknown != nil || found.Kind == "":
		return &output.ExitError{Code: output.ExitUsage, Err: err}
	case found.Kind == admin.KindOther && len(found.Keys) > 0:
		advice := "choose another name"
		if found.Keys[0].Type == "string" {
			advice += ", or --layout plain if another program has a lock there"
		}
		return output.UsageError("lock %q: the store has a %s under that name, which is no lock of this layout; %s", s.Name, found.Keys[0].Type, advice)
	}
	if found.Kind == admin.KindOther {
		return output.UsageError("lock %q: the store has something under that name which is no lock; choose another name", s.Name)
	}
	return output.UsageError("lock %q is in use as a %s, and not as a %s: use the kind that the other programs use", s.Name, nounOf(found.Kind), nounOf(s.kind()))
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
