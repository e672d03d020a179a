package driver

import "errors"

// Errors of a Backend. ErrGone and ErrNotExecuted are certain; any error that is
// none of these leaves the outcome unknown.
var (
	// ErrGone says that the store holds nothing of the claim.
	ErrGone = errors.New("claim is gone")

	// ErrNotExecuted says that the store did not execute the call, and that the same
	// call may succeed later: the connection was refused, the server is still
	// loading, a fail-over is under way.
	ErrNotExecuted = errors.New("not executed")

	// ErrRefused says that the store refused the call and will refuse it again
	// until somebody changes something: wrong password, missing right, a full
	// server. A refused call may have been executed in part unless the error is
	// ErrNotExecuted as well.
	ErrRefused = errors.New("refused by the store")

	// ErrClosed says that the client of the store was closed by the program itself:
	// the call was not executed, and no later one will be. It comes with ErrNotExecuted
	// and ErrRefused.
	ErrClosed = errors.New("the client of the store is closed")

	// ErrMismatch says that the name is in use for something else: another kind
	// of lock, or data that is no lock. It is certain that nothing was changed.
	ErrMismatch = errors.New("name is in use for something else")
)

// Reason says why a claim is gone.
type Reason string

// Reasons for which a hold ends before it is unlocked. Their text is what logs
// and metrics show.
const (
	// Expired: the lease ended before it was renewed.
	Expired Reason = "expired"
	// NotOwner: another owner holds the name.
	NotOwner Reason = "not_owner"
	// Deleted: the record was removed by hand or with all the others.
	Deleted Reason = "deleted"
	// Forced: somebody broke the lock on purpose.
	Forced Reason = "forced"
	// Evicted: the server dropped the record to free memory.
	Evicted Reason = "evicted"
	// Unreachable: the store did not confirm the lease before its deadline.
	Unreachable Reason = "unreachable"
	// Closed: the connection that the hold depended on was closed.
	Closed Reason = "closed"
)

// GoneError is an ErrGone that knows why.
type GoneError struct {
	Reason Reason
	Detail string // for people; "" if there is nothing to add
}

// Error describes the loss for people.
func (e *GoneError) Error() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return e.Detail
}

// Is reports that a GoneError is ErrGone.
func (e *GoneError) Is(target error) bool { return target == ErrGone }
