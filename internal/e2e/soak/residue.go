package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// residue looks, while all workers are at rest, for keys that should not be
// there: without an end, or of a lock of the round before this one. What
// Redisson keeps forever, of semaphores, it looks at and deletes. The place of
// one who is gone in the queue of a fair lock may stay for as long as Redisson
// keeps it, five minutes, unless somebody comes by: after a kill, or where the
// store may have forgotten that it left, it is let pass.
func (s *soak) residue(n int, windows []window) (wrong []string) {
	mark := fmt.Sprintf(":r%d:", n-1)
	if s.arena.store != nil {
		left, err := s.arena.store.Left(mark)
		if err != nil || len(left) > 0 {
			wrong = append(wrong, fmt.Sprintf("%d claims left, error %v: %.500q", len(left), err, left))
		}
		return wrong
	}
	err := guarded(func() error {
		masters, err := s.arena.masters()
		if err != nil {
			return err
		}
		for _, m := range masters {
			if keys := m.KeysWithoutTTL(mayStay); len(keys) > 0 {
				wrong = append(wrong, fmt.Sprintf("%d keys without a TTL on %s: %.500q", len(keys), m.Addr(), keys))
			}
			var left []string
			for _, key := range m.Keys() {
				switch {
				case ofSemaphore(key):
					if m.Do("EXISTS", key) == int64(1) { // it may have gone with its other half
						wrong = append(wrong, permitsOut(m, counterOf(key), slices.Concat(s.former, windows))...)
					}
				case redistest.Passing(key), inQueue(key) && s.leftQueue(key): // they go by themselves
				case strings.Contains(key, mark):
					left = append(left, key)
				}
			}
			if len(left) > 0 {
				wrong = append(wrong, fmt.Sprintf("%d keys left on %s: %.500q", len(left), m.Addr(), left))
			}
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, "keys: "+err.Error())
	}
	return wrong
}

// lastResidue looks for what the last round left, after the longest lease.
func (s *soak) lastResidue(n int) (wrong []string) {
	for end := time.Now().Add(longestTTL + fairPlace); ; time.Sleep(100 * time.Millisecond) {
		if wrong = s.residue(n, nil); len(wrong) == 0 || time.Now().After(end) {
			return wrong
		}
	}
}

// leftQueue says that somebody may have left the queue of a fair lock without a
// word in the round before.
func (s *soak) leftQueue(key string) bool {
	_, name, _ := strings.Cut(key, "{")
	name, _, _ = strings.Cut(name, "}")
	return slices.ContainsFunc(s.former, func(w window) bool { return w.what == "killed" || w.covers(name) })
}

// listeners looks for subscriptions although nobody waits.
func (s *soak) listeners() (wrong []string) {
	for _, srv := range s.arena.servers() {
		for _, command := range []string{"CHANNELS", "SHARDCHANNELS"} {
			var heard []any
			for end := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				heard, _ = srv.Do("PUBSUB", command).([]any)
				heard = slices.DeleteFunc(heard, func(c any) bool { return c == "__sentinel__:hello" })
				if len(heard) == 0 || time.Now().After(end) {
					break
				}
			}
			if len(heard) > 0 {
				wrong = append(wrong, fmt.Sprintf("somebody listens on %s to %d channels at rest: %.300q", srv.Addr(), len(heard), heard))
			}
		}
	}
	return wrong
}

// mayStay accepts what may have no TTL: counters of tokens, and Redisson's
// semaphores.
func mayStay(key string) bool { return strings.HasPrefix(key, "holdfast:token:{") || ofSemaphore(key) }

// inQueue says that a key is part of the queue of a fair lock.
func inQueue(key string) bool {
	return strings.HasPrefix(key, "redisson_lock_queue:{") || strings.HasPrefix(key, "redisson_lock_timeout:{") || strings.HasPrefix(key, "holdfast:fair:{")
}

func ofSemaphore(key string) bool {
	return strings.HasPrefix(key, semaphores+":") || strings.HasPrefix(key, "{"+semaphores+":")
}

// counterOf returns the key that counts the free permits of the semaphore that
// key belongs to.
func counterOf(key string) string {
	if name, ok := strings.CutPrefix(key, "{"); ok {
		name, _, _ = strings.Cut(name, "}")
		return name
	}
	return key
}

// permitsOut looks at a semaphore and deletes it: nobody holds a permit for longer
// than all workers may, and the free ones and those that are out are all there
// are, unless a fault has deleted the one and not the other.
func permitsOut(m *redistest.Server, key string, windows []window) (wrong []string) {
	held := "{" + key + "}:timeout"
	clock := m.Strings("TIME") // seconds, microseconds
	seconds, err := strconv.ParseInt(clock[0], 10, 64)
	from := fmt.Sprint((seconds+1)*1000 + longestTTL.Milliseconds())
	if n, _ := m.Do("ZCOUNT", held, from, "+inf").(int64); n > 0 || err != nil {
		wrong = append(wrong, fmt.Sprintf("%d permits of %q are out for longer than anybody may have one", n, key))
	}
	value, _ := m.Do("GET", key).(string)
	free, err := strconv.ParseInt(value, 10, 64)
	out, _ := m.Do("ZCARD", held).(int64)
	deleted := slices.ContainsFunc(windows, func(w window) bool {
		return w.covers(key) && (w.what == "lock deleted" || w.what == "flushed")
	})
	if (err != nil || free+out != permits) && !deleted {
		wrong = append(wrong, fmt.Sprintf("%q has %q free permits and %d that are out, of %d", key, value, out, permits))
	}
	m.Do("DEL", key, held)
	return wrong
}
