package driver

import "errors"

// Errors of a Backend. This table is the only place that says what follows from them;
// a test of internal/retry compares the core with it.
//
// Certain: nothing of the call is left in the store, nor will be. Where that is not so,
// the call may be executed in whole, in part or not at all, also later than its error
// came. Again: the same call may succeed later, without anybody doing something.
//
//	error                  certain  executed  again  what the core does
//	ErrNotExecuted         yes      no        yes    makes the same call again, after a pause
//	ErrMismatch            yes      no        no     Lock returns it
//	ErrGone                yes      yes       no     Lock returns it; a hold is lost; a release has ended
//	ErrRefused             no       in part   no     Lock releases the claim and returns it; renewals and releases are made again until the lease ends
//	ErrClosed              yes      no        no     Lock and Unlock return it; nothing is sent any more
//	errors.ErrUnsupported  no       unknown   no     Lock releases the claim and returns it
//	any other              no       unknown   yes    makes the same call again; Lock releases the claim if it gives up
//
// An error may be several of these. It is certain if one of them is, and no again if
// one of them is: a call that was refused before anything was executed is both
// ErrRefused and ErrNotExecuted.
//
// The error of a context that ended during the call is none of these, but any other:
// an adapter that knows that it had sent nothing says ErrNotExecuted as well. When in
// doubt an adapter leaves an error as it is: that costs a second call, while a
// false certainty may cost a lock.
var (
	// ErrGone says that the store holds nothing of the claim. Of a Try, that it was given
	// up before: see Claim.Indeterminate. Best a *GoneError.
	ErrGone = errors.New("claim is gone")

	// ErrNotExecuted says that the store did not execute the call: the connection was
	// refused, the server is still loading, a failover is under way.
	ErrNotExecuted = errors.New("not executed")

	// ErrRefused says that the store refused the call and will refuse it again
	// until somebody changes something: wrong password, missing permission, a full
	// server. A store that must be set up first, as a database without its table,
	// answers ErrRefused until it is, and the message says what to do about it.
	ErrRefused = errors.New("refused by the store")

	// ErrClosed says that the client of the store was closed by the program itself: no
	// later call will be executed either. It comes with ErrNotExecuted and ErrRefused.
	ErrClosed = errors.New("the client of the store is closed")

	// ErrMismatch says that the name is in use for something else: another kind
	// of lock, or data that is no lock.
	ErrMismatch = errors.New("name is in use for something else")
)

// Reason says why a claim is gone.
type Reason string

// Reasons for which a hold ends before it is unlocked. Their text is what logs
// and metrics show.
const (
	// ReasonExpired: the lease ended before it was renewed.
	ReasonExpired Reason = "expired"
	// ReasonNotOwner: another owner holds the name.
	ReasonNotOwner Reason = "not_owner"
	// ReasonDeleted: the record was removed by hand or with all the others.
	ReasonDeleted Reason = "deleted"
	// ReasonForced: somebody broke the lock on purpose.
	ReasonForced Reason = "forced"
	// ReasonEvicted: the server dropped the record to free memory.
	ReasonEvicted Reason = "evicted"
	// ReasonUnreachable: the store did not confirm the lease before its deadline.
	ReasonUnreachable Reason = "unreachable"
	// ReasonClosed: the connection that the hold depended on was closed.
	ReasonClosed Reason = "closed"
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
