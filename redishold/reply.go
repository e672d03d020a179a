package redishold

import (
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// tryReply is the reply of acquire.lua, or of another script that acquires a lock.
type tryReply struct {
	token     uint64        // granted: the first token; otherwise 0
	permits   int           // granted: the total number of permits, if it differs from Claim.Permits; otherwise 0
	otherKind bool          // the key belongs to another kind of lock
	ended     bool          // the claim was abandoned or forced
	tombstone string        // ended: the text of the tombstone
	remaining time.Duration // busy: the remaining lease; negative if the lock never expires
	owner     string        // busy: the holder; "" if unknown
	alive     int64         // queued: until when the claim counts as alive, by the server's clock in ms; 0 if the claim is in no queue
	others    int64         // queued: how many of the waiters before the claim are not Holdfast's
}

func parseTry(value any) (tryReply, error) {
	if token, ok := value.(int64); ok && isToken(token) {
		return tryReply{token: uint64(token)}, nil
	}
	r, ok := wire.Read(value), true
	var answer tryReply
	switch r.Number() {
	case 0:
		answer = tryReply{remaining: wire.Remaining(r.Number()), owner: r.Text()}
		r.Take() // hold count
		if r.More() {
			answer.alive, answer.others = r.Number(), r.Number()
			ok = answer.alive > 0 && answer.others >= 0
		}
	case 2:
		token, permits := r.Number(), r.Number()
		answer = tryReply{token: uint64(token), permits: int(permits)}
		ok = isToken(token) && permits >= math.MinInt32 && permits <= math.MaxInt32
	case -1:
		answer = tryReply{otherKind: true}
	case -2:
		answer = tryReply{ended: true, tombstone: r.Text()}
	default:
		ok = false
	}
	if !ok || !r.Done() {
		return tryReply{}, wire.BadReply("acquire", value)
	}
	return answer, nil
}

func isToken(n int64) bool { return n > 0 && n < 1<<53 }

// renewReply is the reply of renew.lua.
type renewReply int64

const (
	renewed   renewReply = 1
	notHeld   renewReply = 0
	takenOver renewReply = -1 // by a read-write lock of the same name
)

func parseRenew(value any) (renewReply, error) {
	code, ok := value.(int64)
	reply := renewReply(code)
	if !ok || reply != renewed && reply != notHeld && reply != takenOver {
		return notHeld, wire.BadReply("renew", value)
	}
	return reply, nil
}

// explainReply is the reply of explain.lua.
type explainReply struct {
	exists    bool   // the key of the lock exists
	holder    string // the current holder; "" if there is none, or if the key is no lock
	tombstone string // the text of the owner's tombstone; "" if there is none
	counter   bool   // the token counter exists
}

func parseExplain(value any) (explainReply, error) {
	r := wire.Read(value)
	exists, holder, tombstone, counter := r.Number(), r.Text(), r.Text(), r.Number()
	if !r.Done() {
		return explainReply{}, wire.BadReply("explain", value)
	}
	return explainReply{exists: exists == 1, holder: holder, tombstone: tombstone, counter: counter == 1}, nil
}

// probeRefusal is a command that the server refused, and its error reply.
type probeRefusal struct{ command, words string }

func parseProbe(value any) ([]probeRefusal, error) {
	r := wire.Read(value)
	count := r.Number()
	var refusals []probeRefusal
	for r.More() {
		command, words := r.Text(), r.Text()
		words = strings.TrimPrefix(words, "-") // Redis 6.2 leaves the sign of an error reply in its text
		refusals = append(refusals, probeRefusal{command, words})
	}
	if !r.Done() || int64(len(refusals)) != count {
		return nil, wire.BadReply("probe", value)
	}
	return refusals, nil
}
