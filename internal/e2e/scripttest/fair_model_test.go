package scripttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// fairState is what Redis stores of a fair lock. Its methods are the scripts of the fair lock
// in plain Go: what they change, answer and publish. TestFairHistories compares both.
//
// All times are in ms of the server's clock.
type fairState struct {
	now   int64
	token int64 // the last one that was drawn; 0 if the counter is missing

	holder, holds string // "" if the lock is free
	ends          int64  // when its lease does

	queue     []string         // owners in their order
	deadlines map[string]int64 // Redisson drops a waiter at the head from then on
	alive     map[string]int64 // until when the waiters of Holdfast count as alive

	tombstones map[string]tombstone // by owner

	sent []redistest.Message // by the last script
}

// tombstone says that an owner was given up or forced.
type tombstone struct {
	text string
	ends int64
}

// fairAttempt is what an owner asks of fair_acquire.
type fairAttempt struct {
	owner       string
	ttl, tokens int64
	holds       string
	waits       bool // it wants a place in the queue
}

// acquire is fair_acquire.
func (f *fairState) acquire(c fairAttempt) any {
	if stone, ok := f.tombstones[c.owner]; ok {
		return list(n(-2), stone.text)
	}
	if f.holder == c.owner {
		f.holds, f.ends = c.holds, max(f.ends, f.now+c.ttl)
		return f.draw(c.tokens)
	}
	if f.holder != "" {
		left := f.ends - f.now
		return f.wait(c, left, n(0), n(left), f.holder, f.holds)
	}

	dropped := f.dropDead(c.owner)
	if len(f.queue) == 0 || f.queue[0] == c.owner {
		f.leave(c.owner)
		f.holder, f.holds, f.ends = c.owner, c.holds, f.now+c.ttl
		return f.draw(c.tokens)
	}
	if dropped {
		f.wake()
	}
	deadline, _ := f.deadline(f.queue[0])
	return f.wait(c, 0, n(0), n(max(10, min(100, deadline-f.now))), "", "0")
}

// wait gives a claim that waits its place in the queue, and returns the busy reply. left
// is what is left of the holder's lease.
func (f *fairState) wait(c fairAttempt, left int64, reply ...any) any {
	if !c.waits {
		return reply
	}
	before, size := slices.Index(f.queue, c.owner), len(f.queue)
	queued := before >= 0
	if !queued {
		before = size
		f.queue = append(f.queue, c.owner)
	}
	strangers := f.strangers(before, size)
	if queued { // entries of waiters that Redisson dropped
		maps.DeleteFunc(f.alive, func(_ string, until int64) bool { return until <= f.now-day })
	}
	f.alive[c.owner] = f.now + presence

	// Each waiter of Redisson takes its own silence off all deadlines when it goes. The
	// first in the queue needs nothing more; nobody else may lower a deadline.
	deadline := f.now + max(left, 0) + presence + strangers*silence
	if known, ok := f.deadlines[c.owner]; !ok || before == 0 || deadline > known {
		f.deadlines[c.owner] = deadline
	}
	return append(reply, n(f.now+presence), n(strangers))
}

// strangers is how many of the first waiters are not Holdfast's. As long as at least as
// many waiters of Holdfast are alive as there are waiters, there are none.
func (f *fairState) strangers(first, size int) (count int64) {
	living := 0
	for _, until := range f.alive {
		if until > f.now {
			living++
		}
	}
	for _, waiter := range f.queue[:first] {
		if _, ours := f.alive[waiter]; !ours && living < size {
			count++
		}
	}
	return count
}

// release is fair_release. It ends the hold of the owner, or removes its place in the
// queue. If the lock is free then, the first waiter gets it for most milliseconds, or for
// less. The script only wakes the waiter if most is 0, or if the waiter is Redisson's. A
// tombstoneTTL above 0 leaves a tombstone for so many ms.
func (f *fairState) release(owner string, most, tombstoneTTL int64) any {
	held, waited := f.holder == owner, slices.Contains(f.queue, owner)
	if held {
		f.free()
	} else {
		f.leave(owner)
	}
	if tombstoneTTL > 0 {
		f.tombstones[owner] = tombstone{"abandoned", f.now + tombstoneTTL}
	}
	switch {
	case !held && !waited:
		return n(0)
	case f.holder != "":
		return n(1)
	}
	for len(f.queue) > 0 {
		if deadline, known := f.deadline(f.queue[0]); !known || deadline > f.now {
			break
		}
		f.drop()
	}
	if len(f.queue) > 0 {
		f.giveOrWake(most)
	}
	return n(1 + int64(len(f.sent)))
}

// giveOrWake gives the free lock to the first in the queue, or wakes it.
func (f *fairState) giveOrWake(most int64) {
	next := f.queue[0]
	alive, ours := f.alive[next]
	switch {
	case !ours:
		f.publish(channel+":"+next, "0")
	case most == 0:
		f.publish(channel+":"+client(next), "0:0:"+next)
	default:
		f.drop()
		left := min(alive-f.now, most)
		f.holder, f.holds, f.ends = next, "1", f.now+left
		f.publish(channel+":"+client(next), fmt.Sprintf("%d:%d:%d:%d:%s:%s", f.draw(1), alive, left, len(lockKey), lockKey, next))
	}
}

// renew is renew.
func (f *fairState) renew(owner string, ttl int64, holds string) any {
	if f.holder != owner {
		return n(0)
	}
	f.holds, f.ends = holds, max(f.ends, f.now+ttl)
	return n(1)
}

// force is force.lua. It ends the hold of the holder.
func (f *fairState) force(tombstoneTTL int64) any {
	f.tombstones[f.holder] = tombstone{"forced: ops", f.now + tombstoneTTL}
	f.free()
	f.publish(channel, "0")
	return n(2)
}

// wake notifies the first in the queue on its own channel, where Redisson listens, and on the
// channel of its client, where Holdfast listens.
func (f *fairState) wake() {
	f.publish(channel+":"+f.queue[0], "0")
	f.publish(channel+":"+client(f.queue[0]), "0:0:"+f.queue[0])
}

func (f *fairState) publish(channel, payload string) {
	f.sent = append(f.sent, redistest.Message{Channel: channel, Payload: payload})
}

func (f *fairState) free() { f.holder, f.holds, f.ends = "", "", 0 }

// draw returns the first of a block of tokens: the clock in µs, or the one after the last.
func (f *fairState) draw(tokens int64) any {
	first := max(f.now*1000, f.token+1)
	f.token = first + tokens - 1
	return n(first)
}

// deadline is when a waiter counts as dead. Presence counts for those that have it,
// whatever Redisson made of their deadlines.
func (f *fairState) deadline(waiter string) (at int64, known bool) {
	if at, known = f.alive[waiter]; !known {
		at, known = f.deadlines[waiter]
	}
	return at, known
}

// dropDead drops the dead at the head of the queue, up to the owner who tries. A head
// without a deadline would block the queue forever, and gets one.
func (f *fairState) dropDead(owner string) (dropped bool) {
	for len(f.queue) > 0 && f.queue[0] != owner {
		deadline, known := f.deadline(f.queue[0])
		if !known {
			f.deadlines[f.queue[0]] = f.now + presence
			break
		}
		if deadline > f.now {
			break
		}
		f.drop()
		dropped = true
	}
	return dropped
}

// drop removes the first place of the queue.
func (f *fairState) drop() {
	head := f.queue[0]
	f.queue = f.queue[1:]
	delete(f.deadlines, head)
	delete(f.alive, head)
}

// leave removes all places of an owner.
func (f *fairState) leave(owner string) {
	f.queue = slices.DeleteFunc(f.queue, func(o string) bool { return o == owner })
	delete(f.deadlines, owner)
	delete(f.alive, owner)
}

// client is the client of an owner.
func client(owner string) string { return owner[:strings.LastIndex(owner, ":")] }
