package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/redishold"
)

// What a wait cannot fix counts for more than that the lock was busy meanwhile,
// and both for more than that the time was over.
func TestStatusOfWhatCameTogether(t *testing.T) {
	busy := &holdfast.BusyError{Name: "job", Holder: "somebody"}
	noPerm := fmt.Errorf("%w: %w", driver.ErrRefused, &redishold.ReplyError{Text: "NOPERM this user has no permissions"})
	noAuth := fmt.Errorf("%w: %w", driver.ErrDenied, &redishold.ReplyError{Text: "NOAUTH Authentication required."})
	late := context.DeadlineExceeded
	for _, test := range []struct {
		name string
		errs []error
		want int
	}{
		{"busy", []error{busy}, 5},
		{"busy, out of time", []error{busy, late}, 5},
		{"out of time, busy", []error{late, busy}, 5},
		{"out of time", []error{late}, output.ExitUnreachable},
		{"no answer", []error{driver.ErrNotExecuted, late}, output.ExitUnreachable},
		{"busy, no answer", []error{busy, driver.ErrNotExecuted}, 5},
		{"rights", []error{noPerm}, output.ExitRefused},
		{"busy, rights", []error{busy, noPerm}, output.ExitRefused},
		{"rights, busy, out of time", []error{noPerm, busy, late}, output.ExitRefused},
		{"busy, password", []error{busy, noAuth}, output.ExitRefused},
		{"out of time, password", []error{late, noAuth}, output.ExitRefused},
		{"busy, a name that cannot be kept", []error{busy, driver.ErrInvalid}, output.ExitUsage},
		{"busy, no table", []error{busy, driver.ErrRefused}, output.ExitRefused},
		{"busy, full", []error{busy, driver.ErrUnable}, output.ExitUnreachable},
		{"another kind", []error{holdfast.ErrMismatch}, output.ExitUsage},
		{"busy, another kind", []error{busy, holdfast.ErrMismatch}, output.ExitUsage},
		{"another kind, out of time", []error{holdfast.ErrMismatch, late}, output.ExitUsage},
		{"rights, another kind", []error{noPerm, holdfast.ErrMismatch}, output.ExitUsage},
		{"busy, not supported", []error{busy, errors.ErrUnsupported}, output.ExitOwnFailure},
		{"busy, waits for itself", []error{busy, holdfast.ErrDeadlock}, output.ExitOwnFailure},
	} {
		s := session{Lock: &Lock{ConflictCode: 5, SkipOK: true}, Program: Program{Report: output.Silent()}}
		err := s.notAcquired(t.Context(), fmt.Errorf("lock %q: %w", "job", errors.Join(test.errs...)))
		var ended *output.ExitError
		if !errors.As(err, &ended) || ended.Code != test.want || ended.Err == nil {
			t.Errorf("%s: got %v, want status %d and what happened", test.name, err, test.want)
			continue
		}
		r := &runner{session: s}
		if skipped := r.skipped(err) == nil; skipped != (test.want == 5) {
			t.Errorf("%s: got skipped %v, want that of busy locks only", test.name, skipped)
		}
	}
}

// Who ends the program need not read what the store said meanwhile.
func TestStatusOfASignalComesFirst(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	ctx, done := interruptible(t.Context(), signals)
	defer done()
	<-ctx.Done()
	s := session{Lock: &Lock{ConflictCode: 5}}
	err := s.notAcquired(ctx, errors.Join(&holdfast.BusyError{}, driver.ErrRefused, ctx.Err()))
	var ended *output.ExitError
	if !errors.As(err, &ended) || ended.Code != 130 || ended.Err != nil {
		t.Errorf("got %v, want status 130 and no message", err)
	}
}

// otherData is a store that has other data under each name.
type otherData struct{ *memhold.Backend }

// Describe implements admin.Source.
func (otherData) Describe(_ context.Context, name string) (admin.Detail, error) {
	return admin.Detail{Record: admin.Record{Name: name, Kind: admin.KindOther}}, nil
}

// A name that has other data is no kind of lock that programs use.
func TestMismatchWithOtherData(t *testing.T) {
	s := session{Lock: &Lock{Name: "job"}, console: admin.New(otherData{memhold.New()})}
	err := s.explainMismatch(fmt.Errorf("lock: %w", holdfast.ErrMismatch))
	var own *output.ExitError
	if !errors.As(err, &own) || own.Code != output.ExitUsage || !strings.Contains(err.Error(), "the store has something under that name, which is not a lock") {
		t.Errorf("got %v", err)
	}
}

// A lock of another kind gets the flags for its kind.
func TestAdviceForAnotherKind(t *testing.T) {
	for _, test := range []struct {
		lock  Lock
		found admin.Kind
		want  string
	}{
		{Lock{}, admin.KindReadWrite, "a read-write lock: add --shared or --exclusive"},
		{Lock{Fair: true}, admin.KindReadWrite, "a read-write lock: replace --fair by --shared or --exclusive"},
		{Lock{}, admin.KindFair, "a fair lock: add --fair"},
		{Lock{Exclusive: true}, admin.KindFair, "a fair lock: replace --exclusive by --fair"},
		{Lock{}, admin.KindSemaphore, "a semaphore: add --permits"},
		{Lock{Shared: true}, admin.KindMutex, "a mutex: remove --shared"},
		{Lock{Permits: 2}, admin.KindMutex, "a mutex: remove --permits"},
		{Lock{Fair: true}, admin.KindMutex, "a mutex: remove --fair, or "},
		{Lock{}, admin.KindLatch, "in use as a lock of the kind latch: use the kind that"},
		{Lock{}, admin.KindMutex, "in use as a lock of the kind mutex: use the kind that"},
		{Lock{Shared: true}, admin.KindReadWrite, "in use as a lock of the kind read-write: use the kind that"},
	} {
		if got := test.lock.adviceFor(test.found); !strings.HasPrefix(got, test.want) {
			t.Errorf("%q for %s: got %q, want %q", test.lock.kindFlag(), test.found, got, test.want)
		}
	}
}

// A signal that comes as the lock is granted ends the hold before any report.
func TestSignalDuringTheGrant(t *testing.T) {
	store, signals := memhold.New(), make(chan os.Signal, 1)
	locker := holdfast.New(store, &holdfast.Options{Observe: func(ctx context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventAcquire {
			signals <- syscall.SIGTERM
			<-ctx.Done()
		}
	}})
	s := session{Lock: &Lock{Name: "job", Nonblock: true}, Program: Program{Report: output.Silent()}, signals: signals}
	var ended *output.ExitError
	if _, err := s.acquire(t.Context(), locker); !errors.As(err, &ended) || ended.Code != 143 || ended.Err != nil {
		t.Errorf("got %v, want status 143 and no message", err)
	}
	if records, err := store.Get(t.Context(), "job"); err != nil || records[0].Holders != 0 {
		t.Errorf("got %v, %v", records, err)
	}
}
