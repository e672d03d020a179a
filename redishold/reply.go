package redishold

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// tryReply is what acquire.lua answers.
type tryReply struct {
	state     tryState
	token     uint64        // granted
	remaining time.Duration // busy; negative if the lock never expires
	owner     string        // busy; "" if unknown
	alive     int64         // queued: until when the owner counts as alive; 0 if there is no queue
	strangers int64         // queued: how many before it are not Holdfast's
	mark      string        // gone
	permits   int           // granted: of the semaphore in all, if they are not those of the claim
	said      *said         // busy: what is registered of the owner; nil if the script has not said
}

// said is what introduce.lua adds to the answer.
type said struct {
	card
	client string // of a permit: who is registered for it, "" if nobody is
}

// cutSaid takes off what introduce.lua has added to a busy answer.
func cutSaid(list []any) ([]any, *said, bool) {
	last := len(list) - 1
	nested, ok := list[last].([]any)
	if !ok {
		return list, nil, true
	}
	found, ok := texts(nested)
	if !ok || len(found) < 2 || len(found) > 3 {
		return nil, nil, false
	}
	now, err := strconv.ParseInt(found[1], 10, 64)
	s := &said{card: card{found[0], now}}
	if len(found) == 3 {
		s.client = found[2]
	}
	return list[:last], s, err == nil
}

type tryState int

const (
	tryBusy tryState = iota
	tryGranted
	tryOtherKind
	tryGone
)

// badReply is the error for a reply that is not exactly what the script can
// answer: in doubt, nothing is granted.
func badReply(script string, value any) error {
	return fmt.Errorf("redis: script %s answered %#v, which it cannot: is a proxy in between?", script, value)
}

func parseTry(value any) (tryReply, error) {
	if token, ok := value.(int64); ok && token > 0 && token < 1<<53 {
		return tryReply{state: tryGranted, token: uint64(token)}, nil
	}
	list, _ := value.([]any)
	if len(list) == 0 {
		return tryReply{}, badReply("acquire", value)
	}
	code, ok := list[0].(int64)
	list, said, okSaid := cutSaid(list)
	switch {
	case !ok || !okSaid || said != nil && code != 0:
	case code == 0 && (len(list) == 4 || len(list) == 6):
		pttl, okTTL := list[1].(int64)
		owner, okOwner := list[2].(string)
		reply := tryReply{state: tryBusy, remaining: remaining(pttl), owner: owner, said: said}
		okQueue := true
		if len(list) == 6 {
			var okStrangers bool
			reply.alive, okQueue = list[4].(int64)
			reply.strangers, okStrangers = list[5].(int64)
			okQueue = okQueue && okStrangers && reply.alive > 0 && reply.strangers >= 0
		}
		if okTTL && okOwner && okQueue {
			return reply, nil
		}
	case code == 2 && len(list) == 3:
		token, okToken := list[1].(int64)
		permits, okPermits := list[2].(int64)
		if okToken && okPermits && token > 0 && token < 1<<53 && permits >= math.MinInt32 && permits <= math.MaxInt32 {
			return tryReply{state: tryGranted, token: uint64(token), permits: int(permits)}, nil
		}
	case code == -1 && len(list) == 1:
		return tryReply{state: tryOtherKind}, nil
	case code == -2 && len(list) == 2:
		if mark, ok := list[1].(string); ok {
			return tryReply{state: tryGone, mark: mark}, nil
		}
	}
	return tryReply{}, badReply("acquire", value)
}

// parseEnded reads what release, abandon and break answer: whether a hold was
// ended, and how many received the message of it, -1 if the server refused to
// publish.
func parseEnded(script string, value any) (ended bool, receivers int, err error) {
	code, ok := value.(int64)
	switch {
	case !ok || code < -1 || code > math.MaxInt32:
		return false, 0, badReply(script, value)
	case code == -1:
		return true, -1, nil
	default:
		return code > 0, int(max(code-1, 0)), nil
	}
}

func parseRenew(value any) (renewed bool, err error) {
	code, ok := value.(int64)
	if !ok || code != 0 && code != 1 {
		return false, badReply("renew", value)
	}
	return code == 1, nil
}

// explainReply is what explain.lua answers.
type explainReply struct {
	exists  bool   // there is a key of the lock's name
	holder  string // who holds it now; "" if nobody, or it is no lock
	mark    string // why the owner was given up or broken; "" if it was not
	counter bool   // the token counter is there
}

func parseExplain(value any) (explainReply, error) {
	r := reading{list: asList(value), ok: true}
	exists, holder, mark, counter := r.number(), r.text(), r.text(), r.number()
	if !r.ok || len(r.list) > 0 {
		return explainReply{}, badReply("explain", value)
	}
	return explainReply{exists: exists == 1, holder: holder, mark: mark, counter: counter == 1}, nil
}

// probeRefusal is a command that the server refused, and how; of a message, to which
// channel.
type probeRefusal struct{ command, channel, words string }

func parseProbe(value any) ([]probeRefusal, error) {
	r := reading{list: asList(value), ok: true}
	count := r.number()
	var refusals []probeRefusal
	for r.more() {
		command, words := r.text(), r.text()
		words = strings.TrimPrefix(words, "-") // Redis 6.2 keeps the sign of an error
		refusals = append(refusals, probeRefusal{command: command, words: words})
	}
	if !r.ok || int64(len(refusals)) != count {
		return nil, badReply("probe", value)
	}
	return refusals, nil
}

// remaining turns PTTL into a duration; -1, no TTL, stays negative. Redis counts
// further than a Duration does.
func remaining(pttl int64) time.Duration {
	if pttl > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(pttl) * time.Millisecond
}
