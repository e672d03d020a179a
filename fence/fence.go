// Package fence refuses stale writes at the resource that a lock protects.
//
// A lock cannot stop a holder that was paused after its last check of the lock and before
// its write. The resource can, if every write has the fencing token of its lock
// (Lock.Token) and the resource refuses a token that is smaller than an earlier one. The
// comparison and the write must be one step:
//
//   - SQL compares and records in the transaction of the write,
//   - Script does so in Redis, together with the write,
//   - Guard does so in the memory of the one process that owns the resource.
//
// An equal token is accepted, because it belongs to the same holder. Tokens of different
// names or of different stores cannot be compared.
//
// If the store of the lock has no tokens, Lock.Token returns 0. The token 0 cannot protect the
// data, so it is refused with an error that is not ErrStale.
package fence

import (
	"errors"
	"fmt"
)

// ErrStale means that a later holder of the lock has written. The write was refused, and
// a repetition is refused, too.
var ErrStale = errors.New("fence: stale token")

// stale returns the error of a refusal. The parameter `seen` is the larger token; 0 means that
// it is not known.
func stale(name string, token, seen uint64) error {
	if seen == 0 {
		return fmt.Errorf("%w: %q was written with a larger token than %d", ErrStale, name, token)
	}
	return fmt.Errorf("%w: %q was written with token %d, and this is %d", ErrStale, name, seen, token)
}

// valid returns an error if the token is 0 or more than 2^63-1, because no store gives such a
// token.
func valid(name string, token uint64) error {
	if token == 0 || token > 1<<63-1 {
		return fmt.Errorf("fence: %d for %q is not a token: does the store of the lock have them?", token, name)
	}
	return nil
}

// staleInRedis returns the error of a refusal by Script.
func staleInRedis(seen any) error {
	return fmt.Errorf("%w: the value was written with token %v", ErrStale, seen)
}

func badReply(reply any) error {
	return fmt.Errorf("fence: not a reply of the script: %v", reply)
}
