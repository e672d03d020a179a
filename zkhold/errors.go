package zkhold

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

var (
	// errExpired says that ZooKeeper has ended the session, and removed all of its nodes.
	errExpired = fmt.Errorf("the session in ZooKeeper has expired: %w", driver.ErrGone)
	// errClosed says that Close was called.
	errClosed = fmt.Errorf("%w: %w: %w", driver.ErrNotExecuted, driver.ErrRefused, driver.ErrClosed)
	// errDisconnected says that a call was not sent.
	errDisconnected = fmt.Errorf("not connected to ZooKeeper: %w", driver.ErrNotExecuted)
)

// errorOf translates an error of the client into an error of package driver if the outcome of
// the call follows from it. It returns any other error unchanged, because the outcome may be
// indeterminate, for example after the connection has broken.
func errorOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrSessionExpired):
		return errExpired
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionMoved):
		return unsent.Error(err)
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL):
		return refused("ZooKeeper does not let this client use the nodes of the lock", err)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("a part of the path is a node of another lock: %w: %w", driver.ErrMismatch, err)
	case errors.Is(err, zk.ErrInvalidPath):
		return refused("zkhold.Options.Root", err)
	}
	return err
}

// isCertain reports whether the outcome of a call with this error is known: err is nil, or
// the call was not executed and will not be.
func isCertain(err error) bool {
	certain := []error{nil, driver.ErrNotExecuted, driver.ErrGone, driver.ErrMismatch, zk.ErrNoNode, zk.ErrNodeExists}
	return slices.ContainsFunc(certain, func(e error) bool { return errors.Is(errorOf(err), e) })
}

// refused returns the error of a call that was not executed, and that will fail again until
// an operator changes something.
func refused(what string, err error) error {
	return fmt.Errorf("%s: %w: %w: %w", what, driver.ErrRefused, driver.ErrNotExecuted, err)
}
