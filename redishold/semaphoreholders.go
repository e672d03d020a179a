package redishold

import (
	"encoding/hex"
	"errors"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// isWrongType says that a script met a key of another type, in place of a lock's
// hash. It may be a semaphore, a latch, or nothing of ours.
func isWrongType(err error) bool {
	var reply *ReplyError
	return errors.As(err, &reply) && meaningOf(reply.Text) == meansWrongType
}

// anonymous is a permit of which no more is known than its id and the milliseconds
// that it has left.
func anonymous(id string, left int64) admin.Hold {
	return admin.Hold{
		Holder: admin.Holder{Owner: hex.EncodeToString([]byte(id)), Note: "a permit", Holds: 1, Remaining: remaining(left)},
		Mode:   driver.Permit,
	}
}

// breakHold ends a permit. An owner who is not known has no mark, and only learns that
// it is gone.
func (f semaphore) breakHold(p place, h admin.Holder, why, markTTL string, publish []string) Call {
	keys := []string{p.lock, f.permits(p)}
	id, hidden := shownPermit(h.Owner)
	if !hidden {
		id, keys = permitID(h.Owner), append(keys, f.mark(p, h.Owner))
	}
	return Call{
		Script: f.breakOne,
		Keys:   keys,
		Args:   append([]string{id, why, markTTL, semaphoreChannel(p)}, publish...),
	}
}
