package redishold

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// fairPresence is how long a waiter in the queue counts as alive after its
	// last try. The core tries at least once a second, so one that died delays the
	// next by no more than this.
	//
	// It is also for how long a release gives the lock to a waiter, and counted from
	// that waiter's last try. All clients of a lock must agree on it.
	fairPresence = 4 * time.Second

	// fairWait is how long Redisson waits for its own silent waiters, if nobody
	// set its fairLockWaitTimeout.
	fairWait = 5 * time.Minute
)

// fairScripts are the scripts of the fair lock.
type fairScripts struct{ acquire, release, probe *Script }

func loadFairScripts() fairScripts {
	return fairScripts{
		acquire: loadScript("fair_acquire"),
		release: loadScript("fair_release"),
		probe:   loadScript("fair_probe"),
	}
}

// fair is Redisson's fair lock: the hash of an RLock, and beside it a list of
// waiting owners with a sorted set of their deadlines. Each waiter of Redisson's
// has a channel of its own. What tells a live waiter of Holdfast from a dead one is a sorted
// set more, of which Redisson knows nothing.
type fair struct {
	rlock
	scripts *fairScripts
	wait    time.Duration // of Redisson's waiters
	gives   string        // for how long a release gives the lock to the next, in ms; 0: it only wakes
}

// fairLock returns how a fair lock is kept.
func (b *Backend) fairLock() form {
	f := fair{rlock: b.rlock(), scripts: &b.fair, wait: b.fairWait, gives: "0"}
	if b.options.Replicas == 0 { // else replicas have to acknowledge what the next one gets
		f.gives = ms(fairPresence)
	}
	return f
}

// queue returns the keys of p's queue, of its deadlines, and of Holdfast's living.
func (l *layout) queue(p place) (queue, deadlines, alive string) {
	return "redisson_lock_queue:" + tagged(p.lock), "redisson_lock_timeout:" + tagged(p.lock), l.alive(p)
}

// alive returns the key that says which of p's waiters are alive.
func (l *layout) alive(p place) string { return l.beside(p.lock, "fair") }

func (f fair) acquire(to room, p place, c driver.Claim, ask string, publish []string) Call {
	queue, deadlines, alive := f.queue(p)
	presence := ms(fairPresence)
	if c.NoQueue {
		presence = "-" + presence
	}
	return Call{
		Script: f.scripts.acquire,
		Keys:   append(to.keys, p.lock, f.mark(p, c.Owner), p.counter, queue, deadlines, alive),
		Args: append(append(to.args,
			c.Owner, f.lease(c.TTL), count(c.Holds), count(c.Tokens), presence, ms(f.wait), p.channel+":", ask,
		), publish...),
	}
}

func (f fair) release(to room, p place, c driver.Claim, publish []string) Call {
	queue, deadlines, alive := f.queue(p)
	return Call{
		Script: f.scripts.release,
		Keys:   append(to.keys, p.lock, queue, deadlines, alive, p.counter),
		Args:   append(append(to.args, c.Owner, "0", p.channel+":", f.gives), publish...),
	}
}

func (f fair) abandon(p place, c driver.Claim, publish []string, markTTL time.Duration) Call {
	call := f.release(room{}, p, c, publish)
	call.Source = true // rarely run, and a link that hangs must not bring NOSCRIPT when it is back
	call.Keys = append(call.Keys, f.mark(p, c.Owner))
	call.Args[1] = ms(markTTL)
	return call
}

// channel is the waiter's own, where Redisson wakes the one whose turn it is. See
// sharedChannel.
func (f fair) channel(p place, c driver.Claim) string { return p.channel + ":" + c.Owner }

// tellsAll: a release tells only the next.
func (f fair) tellsAll() bool { return false }

func (f fair) probe() *Script { return f.scripts.probe }
