package etcdhold

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// errLeaseEnded says that etcd does not know the lease.
var errLeaseEnded = fmt.Errorf("the lease in etcd has ended: %w", driver.ErrGone)

// errorOf translates an error of the client into an error of package driver if the outcome of
// the call follows from it. It returns any other error unchanged. In that case the outcome is
// indeterminate. The client repeats a write only if the write was certainly not sent.
func (s *store) errorOf(err error) error {
	switch {
	case err == nil:
		return nil
	case s.client.Ctx().Err() != nil:
		return fmt.Errorf("%w: %w: %w: %w", driver.ErrNotExecuted, driver.ErrRefused, driver.ErrClosed, err)
	}
	var answer rpctypes.EtcdError
	if !errors.As(err, &answer) {
		return err
	}
	switch answers.Etcd(answer.Error()) {
	case answers.Gone:
		return errLeaseEnded
	case answers.Unable:
		return refused("etcd has reached its disk quota; compact and defragment it, then disarm the alarm", driver.ErrUnable, err)
	case answers.Denied:
		return refused("etcd does not let this user use the keys of the lock", driver.ErrDenied, err)
	case answers.Invalid:
		return refused("etcd", driver.ErrInvalid, err)
	case answers.Refused:
		return refused("etcd", driver.ErrRefused, err)
	case answers.Later:
		return unsent.Error(err)
	}
	return err
}

// refused returns the error of a call that was not executed. The parameter `refusal` is
// driver.ErrRefused, or an error of package driver that is an ErrRefused.
func refused(what string, refusal, err error) error {
	return fmt.Errorf("%s: %w: %w: %w", what, refusal, driver.ErrNotExecuted, err)
}
