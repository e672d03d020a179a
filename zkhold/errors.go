package zkhold

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/answers"
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
	case errors.Is(err, zk.ErrNoServer): // the client is not connected
		return unsent.Error(err)
	case errors.Is(err, zk.ErrInvalidPath): // the client has sent nothing
		return refused("zkhold.Options.Root", driver.ErrInvalid, err)
	}
	code := codeOf(err)
	if strings.HasPrefix(err.Error(), unnamed) {
		err = codeError(code)
	}
	switch answers.ZooKeeper(code) {
	case answers.Gone:
		return errExpired
	case answers.Denied:
		if code == loginRequired {
			return refused("ZooKeeper demands a login (SASL, or enforce.auth.schemes), and closed the session; Holdfast knows only the login digest", driver.ErrDenied, err)
		}
		return refused("ZooKeeper does not let this client use the nodes of the lock", driver.ErrDenied, err)
	case answers.Unable:
		return refused("the nodes of the lock have a quota in ZooKeeper, which is used up", driver.ErrUnable, err)
	case answers.Mismatch:
		return fmt.Errorf("a part of the path is a node of another lock: %w: %w", driver.ErrMismatch, err)
	case answers.Later:
		return unsent.Error(err)
	}
	return err
}

// loginRequired is the code of a server that closes sessions without a login.
const loginRequired = -124

// unnamed begins the text of the client's error for a code that the client does not know.
const unnamed = "unknown error: "

// codeOf returns the code of an error of the server, or 0 if err has none.
func codeOf(err error) (code int) {
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return -102
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return -108
	case errors.Is(err, zk.ErrSessionExpired):
		return -112
	case errors.Is(err, zk.ErrInvalidACL):
		return -114
	case errors.Is(err, zk.ErrAuthFailed):
		return -115
	case errors.Is(err, zk.ErrSessionMoved):
		return -118
	}
	_, _ = fmt.Sscanf(err.Error(), unnamed+"%d", &code)
	return code
}

// codeError is a code of the server that the client does not know.
type codeError int

// Error returns the name that ZooKeeper has for the code, and the code.
func (c codeError) Error() string {
	name := "unknown code"
	switch c {
	case -119:
		name = "the server is read-only, because it has lost the majority: NOTREADONLY"
	case -122:
		name = "REQUESTTIMEOUT"
	case loginRequired:
		name = "SESSIONCLOSEDREQUIRESASLAUTH"
	case -125:
		name = "QUOTAEXCEEDED"
	case -127:
		name = "the server has too many requests: THROTTLEDOP"
	}
	return fmt.Sprintf("%s (%d)", name, int(c))
}

// isCertain reports whether the outcome of a call with this error is known: err is nil, or
// the call was not executed and will not be.
func isCertain(err error) bool {
	certain := []error{nil, driver.ErrNotExecuted, driver.ErrGone, driver.ErrMismatch, zk.ErrNoNode, zk.ErrNodeExists}
	return slices.ContainsFunc(certain, func(e error) bool { return errors.Is(errorOf(err), e) })
}

// refused returns the error of a call that was not executed. The parameter `refusal` is
// driver.ErrRefused, or an error of package driver that is an ErrRefused.
func refused(what string, refusal, err error) error {
	return fmt.Errorf("%s: %w: %w: %w", what, refusal, driver.ErrNotExecuted, err)
}
