// Package fence refuses stale writes at the resource that a lock protects.
//
// A lock cannot stop a holder that was paused after its last look at the lock
// and before its write. The resource can, if every write brings the fencing
// token of its lock (holdfast's Lock.Token) and a token that is smaller than one
// seen before is refused. The comparison and the write have to be one step:
//
//   - SQL compares and records in the transaction of the write,
//   - Script does so in Redis, together with the write,
//   - Guard does so in the memory of the one process that owns the resource.
//
// An equal token is accepted: it is the same holder, writing again. Tokens of
// different names, or from different stores of locks, cannot be compared.
//
// A token of 0 is what a store without tokens gives. It is refused, with an error
// that is not ErrStale: accepting it would protect nothing.
package fence

import (
	"errors"
	"fmt"
)

// ErrStale means that a later holder of the lock has written. The write was refused, and
// a repetition is refused, too.
var ErrStale = errors.New("fence: stale token")

// stale describes a refusal. seen is 0 where it is not known.
func stale(name string, token, seen uint64) error {
	if seen == 0 {
		return fmt.Errorf("%w: %q was written with a larger token than %d", ErrStale, name, token)
	}
	return fmt.Errorf("%w: %q was written with token %d, and this is %d", ErrStale, name, seen, token)
}

// valid checks that a token can be one.
func valid(name string, token uint64) error {
	if token == 0 || token > 1<<63-1 {
		return fmt.Errorf("fence: %d for %q is not a token: does the store of the lock have them?", token, name)
	}
	return nil
}

// staleInRedis describes a refusal by Script.
func staleInRedis(seen any) error {
	return fmt.Errorf("%w: the value was written with token %v", ErrStale, seen)
}

func badReply(reply any) error {
	return fmt.Errorf("fence: not a reply of the script: %v", reply)
}
