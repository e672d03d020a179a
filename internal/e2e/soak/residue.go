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
// Redisson keeps for ever, of semaphores, it looks at and deletes. The place of a
// dead process in the queue of a fair lock may stay for as long as Redisson keeps
// it, five minutes, unless somebody comes by: after a kill it is let pass.
func (s *soak) residue(n int) (wrong []string) {
	former := fmt.Sprintf(":r%d:", n-1)
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
					left = append(left, permitsOut(m, key)...)
				case strings.HasPrefix(key, "holdfast:gone:"), s.killed && inQueue(key): // they go by themselves
				case strings.Contains(key, former):
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

// permitsOut returns key if it says that somebody holds a permit for longer than
// all workers may, and deletes it otherwise.
func permitsOut(m *redistest.Server, key string) []string {
	if strings.HasSuffix(key, ":timeout") {
		clock := m.Strings("TIME") // seconds, microseconds
		seconds, err := strconv.ParseInt(clock[0], 10, 64)
		from := fmt.Sprint((seconds+1)*1000 + longestTTL.Milliseconds())
		if n, _ := m.Do("ZCOUNT", key, from, "+inf").(int64); n > 0 || err != nil {
			return []string{key}
		}
	}
	m.Do("DEL", key)
	return nil
}
