package etcdhold

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// errLeaseEnded says that etcd does not know the lease.
var errLeaseEnded = fmt.Errorf("the lease in etcd has ended: %w", driver.ErrGone)

// errorOf translates an error of the client into an error of package driver if the outcome of
// the call follows from it. It returns any other error unchanged. In that case the outcome is
// indeterminate. The client repeats a write only if the write was certainly not sent.
func (s *store) errorOf(err error) error {
	is := func(some ...error) bool {
		return slices.ContainsFunc(some, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case err == nil:
		return nil
	case s.client.Ctx().Err() != nil:
		return fmt.Errorf("%w: %w: %w: %w", driver.ErrNotExecuted, driver.ErrRefused, driver.ErrClosed, err)
	case is(rpctypes.ErrLeaseNotFound):
		return errLeaseEnded
	case is(rpctypes.ErrNoSpace):
		return refused("etcd has reached its disk quota; compact and defragment it, then disarm the alarm", err)
	case is(rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrPermissionDenied):
		return refused("etcd does not let this user use the keys of the lock", err)
	case is(rpctypes.ErrRequestTooLarge, rpctypes.ErrCorrupt, rpctypes.ErrNotCapable):
		return refused("etcd", err)
	case is(rpctypes.ErrTooManyRequests):
		return unsent.Error(err)
	}
	return err
}

// refused returns the error of a call that was not executed, and that will fail again until
// an operator changes something.
func refused(what string, err error) error {
	return fmt.Errorf("%s: %w: %w: %w", what, driver.ErrRefused, driver.ErrNotExecuted, err)
}
