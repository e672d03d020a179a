package driver

import (
	"errors"
	"fmt"
)

// Errors of a Backend. This table defines their meaning; a test of internal/retry
// compares the core with it.
//
// Certain: the call has left nothing in the store, and will not. If not certain, the call may
// be executed completely, in part or not at all, also after its error. Again: the same call may
// succeed later, although no operator has done anything.
//
//	error                  certain  executed  again  what the core does
//	ErrNotExecuted         yes      no        yes    makes the same call again, after a pause
//	ErrMismatch            yes      no        no     Lock returns the error
//	ErrGone                yes      yes       no     Lock asks with a new claim; a hold is lost; a release has ended
//	ErrRefused             no       in part   no     Lock releases the claim and returns the error; renewals and releases are made again until the lease ends
//	ErrDenied              no       in part   no     as ErrRefused; with holdfast.RetryRefused, Lock asks again with a new claim
//	ErrUnable              no       in part   no     as ErrDenied
//	ErrInvalid             no       in part   no     as ErrRefused
//	ErrClosed              yes      no        no     Lock and Unlock return the error; nothing is sent any more
//	errors.ErrUnsupported  no       unknown   no     Lock releases the claim and returns the error
//	any other              no       unknown   yes    makes the same call again; Lock releases the claim if it gives up
//
// An error may match several rows. It is certain if one of these rows is certain. The same call
// may succeed later only if all of these rows say so. For example, a call that was refused
// before any execution is both ErrRefused and ErrNotExecuted.
//
// The error of a context that ended during the call counts as "any other". An adapter adds
// ErrNotExecuted only if it is sure that nothing was sent: another call costs little, but a
// wrong ErrNotExecuted may cost a lock.
var (
	// ErrGone means that the store has nothing of the claim. For a Try it means that the
	// claim was released before, see Claim.Indeterminate, or ended by force. The error
	// should be a *GoneError.
	ErrGone = errors.New("claim is gone")

	// ErrNotExecuted means that the store did not execute the call: the connection was
	// refused, the server is loading, or a failover is running.
	ErrNotExecuted = errors.New("not executed")

	// ErrRefused means that the store refused the call, and will refuse it again until an
	// operator acts: a wrong password, a missing permission, a full server. A store
	// without its setup, such as a database without the table, also returns ErrRefused,
	// and the message says what to do. Most refusals are also one of the next three errors.
	ErrRefused = errors.New("refused by the store")

	// ErrDenied is an ErrRefused: the store does not accept this client. It refused the login,
	// or the user lacks a permission. An operator can repair that while the program runs.
	ErrDenied = fmt.Errorf("%w", ErrRefused)

	// ErrUnable is an ErrRefused: the store accepts this client, but cannot execute the call as
	// long as its memory, its disk or a quota is full. An operator can repair that while the
	// program runs.
	ErrUnable = fmt.Errorf("%w", ErrRefused)

	// ErrInvalid is an ErrRefused: the store cannot keep what the caller asks for, such as a
	// name that is too long. The same call fails again, whatever an operator does.
	ErrInvalid = fmt.Errorf("%w", ErrRefused)

	// ErrClosed means that the program has closed the client of the store. No later call
	// will be executed. The error is also ErrNotExecuted and ErrRefused.
	ErrClosed = errors.New("the client of the store is closed")

	// ErrMismatch means that the name is in use for something else: another kind of lock,
	// or data that is not a lock.
	ErrMismatch = errors.New("name is in use for something else")
)

// Reason is why a claim is gone.
type Reason string

// Reasons for the end of a hold before Unlock. Logs and metrics show their text.
const (
	// ReasonExpired: the lease ended before it was renewed.
	ReasonExpired Reason = "expired"
	// ReasonNotOwner: another owner holds the name.
	ReasonNotOwner Reason = "not_owner"
	// ReasonDeleted: the record was deleted by hand, or together with all other records.
	ReasonDeleted Reason = "deleted"
	// ReasonForced: an operator or a program ended the hold by force.
	ReasonForced Reason = "forced"
	// ReasonEvicted: the server removed the record to free memory.
	ReasonEvicted Reason = "evicted"
	// ReasonUnreachable: the store did not confirm the lease before its deadline.
	ReasonUnreachable Reason = "unreachable"
	// ReasonRefused: the deadline of the lease came while the store refused the renewals, for
	// example because a password or a permission had been changed.
	ReasonRefused Reason = "refused"
	// ReasonClosed: the connection that the hold depended on was closed.
	ReasonClosed Reason = "closed"
)

// GoneError is an ErrGone with a reason.
type GoneError struct {
	Reason Reason
	Detail string // a text for people; may be ""
}

// Error returns a text with the reason and the detail.
func (e *GoneError) Error() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return e.Detail
}

// Is makes errors.Is(err, ErrGone) true.
func (e *GoneError) Is(target error) bool { return target == ErrGone }
