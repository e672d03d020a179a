package scripttest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// javaReadAcquire and the others do to a read-write lock what a Redisson client
// does to it, step by step. KEYS 1 lock; ARGV 1 owner, 2 ttl in ms, 3 what timeout
// keys begin with, 4 channel.
const (
	javaReadAcquire = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1)
  redis.call('SET', ARGV[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:1', 1, 'PX', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return nil
end
if mode == 'read' or redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 1 then
  local i = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('SET', ARGV[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. i, 1, 'PX', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))
  return nil
end
return redis.call('PTTL', KEYS[1])`

	javaWriteAcquire = `
local mode, field = redis.call('HGET', KEYS[1], 'mode'), ARGV[1] .. ':write'
if not mode then
  redis.call('HSET', KEYS[1], 'mode', 'write', field, 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return nil
end
if mode == 'write' and redis.call('HEXISTS', KEYS[1], field) == 1 then
  redis.call('HINCRBY', KEYS[1], field, 1)
  redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[2])
  return nil
end
return redis.call('PTTL', KEYS[1])`

	javaReadRelease = `
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local left = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if left == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
redis.call('DEL', ARGV[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. (left + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
  local longest = -3
  for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
    for i = tonumber(redis.call('HGET', KEYS[1], key)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('PTTL', ARGV[3] .. ':' .. key .. ':rwlock_timeout:' .. i))
    end
  end
  if longest > 0 then
    redis.call('PEXPIRE', KEYS[1], longest)
    return 0
  elseif mode == 'write' then
    return 0
  end
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[4], 0)
return 1`

	javaWriteRelease = `
local field = ARGV[1] .. ':write'
if redis.call('HGET', KEYS[1], 'mode') ~= 'write' or redis.call('HEXISTS', KEYS[1], field) == 0 then
  return nil
end
if redis.call('HINCRBY', KEYS[1], field, -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 0
end
redis.call('HDEL', KEYS[1], field)
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[4], 1)
else
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
return 1`
)

// mixed is a read-write lock that Go and Redisson use by turns, and what is known
// of it: how often each party holds each side. A party that Go plays has an owner
// for each side.
type mixed struct {
	*bench
	reads, writes map[string]int
	deaths        map[string]int // how often a party of Redisson died; it comes back with another owner
	log           []string
}

const mixedTTL = 60000

func isJava(party string) bool { return strings.HasPrefix(party, "j") }

func (m *mixed) java(script, party string) any {
	m.t.Helper()
	got, err := m.client.Eval(m.t.Context(), script, []string{lockKey}, m.readOwner(party), mixedTTL, rwPrefix, rwChannel).Result()
	if err != nil && err.Error() != "redis: nil" {
		m.t.Fatalf("%s: %v", party, err)
	}
	return got
}

// granted reports that one of Holdfast's scripts answered with a token.
func granted(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

// othersWrite and othersRead report that somebody but party does.
func (m *mixed) othersWrite(party string) bool { return others(m.writes, party) }
func (m *mixed) othersRead(party string) bool  { return others(m.reads, party) }

func others(holds map[string]int, party string) bool {
	for other, n := range holds {
		if other != party && n > 0 {
			return true
		}
	}
	return false
}

func (m *mixed) tryReadBy(party string) {
	m.t.Helper()
	var ok bool
	if isJava(party) {
		ok = m.java(javaReadAcquire, party) == nil
	} else {
		ok = granted(m.tryRead(party+":r", mixedTTL, 1, party+":w:write"))
	}
	if want := !m.othersWrite(party); ok != want {
		m.fail("read by %s: got a grant %v, want %v", party, ok, want)
	}
	if ok && isJava(party) {
		m.reads[party]++
	} else if ok {
		m.reads[party] = 1
	}
}

func (m *mixed) tryWriteBy(party string) {
	m.t.Helper()
	free := !m.othersWrite(party) && !m.othersRead(party) && (m.reads[party] == 0 || m.writes[party] > 0)
	if isJava(party) {
		ok := m.java(javaWriteAcquire, party) == nil
		if ok && !free {
			m.fail("write by %s: got a grant", party)
		}
		if ok {
			m.writes[party]++
		}
		return
	}
	ok := granted(m.tryWrite(party+":w", mixedTTL, 1))
	if ok != free {
		m.fail("write by %s: got a grant %v, want %v", party, ok, free)
	}
	if ok {
		m.writes[party] = 1
	}
}

// release ends one hold of a thread of Java, or the hold of a party of Go, of the side
// that holds has.
func (m *mixed) release(holds map[string]int, java, party, side string) {
	m.t.Helper()
	if isJava(party) {
		m.java(java, party)
		holds[party] = max(0, holds[party]-1)
		return
	}
	m.leave(party + side)
	holds[party] = 0
}

// loseReads ends all read leases of party; its field stays.
func (m *mixed) loseReads(party string) {
	m.t.Helper()
	for i := 1; i <= m.reads[party]; i++ {
		m.Int("DEL", timeoutKey(m.readOwner(party), i))
	}
	m.reads[party] = 0
	m.deaths[party]++
}

func (m *mixed) readOwner(party string) string {
	if isJava(party) {
		return party + ":" + strconv.Itoa(m.deaths[party])
	}
	return party + ":r"
}

// renewBy renews a read hold of Go, which succeeds if it is held.
func (m *mixed) renewBy(party string) {
	m.t.Helper()
	if isJava(party) {
		return
	}
	ok := m.renewRead(party+":r", mixedTTL, 1) == int64(1)
	if !ok && m.reads[party] > 0 {
		m.fail("renewal by %s: got 0 for a live hold", party)
	}
	if ok {
		if m.othersWrite(party) {
			m.fail("renewal by %s: got 1 beside a writer", party)
		}
		m.reads[party] = 1 // also one whose field had outlived its lease
	}
}

func (m *mixed) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s; after %s; the lock is %v", fmt.Sprintf(format, args...), strings.Join(m.log, ", "), m.Map("HGETALL", lockKey))
}

// check compares the lock with what is known of it.
func (m *mixed) check() {
	m.t.Helper()
	hash, ttl := m.Map("HGETALL", lockKey), m.Int("PTTL", lockKey)
	for party, n := range m.reads {
		if n == 0 {
			continue
		}
		if got := hash[m.readOwner(party)]; got != strconv.Itoa(n) {
			m.fail("%s reads %d times: got count %q", party, n, got)
		}
		if left := m.Int("PTTL", timeoutKey(m.readOwner(party), n)); left <= 0 || left > ttl+5 {
			m.fail("%s reads: its lease has %d ms, the lock %d", party, left, ttl)
		}
	}
	for party, n := range m.writes {
		field := party + ":w:write"
		if isJava(party) {
			field = m.readOwner(party) + ":write"
		}
		if n > 0 && (hash[field] != strconv.Itoa(n) || hash["mode"] != "write" || ttl < mixedTTL-10000) {
			m.fail("%s writes %d times: got count %q, mode %q, TTL %d", party, n, hash[field], hash["mode"], ttl)
		}
	}
	if stay := m.KeysWithoutTTL(isCounter); len(stay) > 0 {
		m.fail("keys without TTL: %q", stay)
	}
}

// TestReadWriteMixedWithRedisson lets Go and the steps of a Redisson client take
// turns at random, with leases that end, and checks after each step that the
// lock is what every process assumes.
func TestReadWriteMixedWithRedisson(t *testing.T) {
	b := newBench(t)
	for seed := range uint64(30) {
		b.String("FLUSHALL")
		m := &mixed{bench: b, reads: map[string]int{}, writes: map[string]int{}, deaths: map[string]int{}, log: []string{fmt.Sprint("seed ", seed)}}
		random := rand.New(rand.NewPCG(seed, 1))
		parties := []string{"g1", "g2", "j1", "j2"}
		for range 60 {
			party := parties[random.IntN(len(parties))]
			step := random.IntN(8)
			m.log = append(m.log, fmt.Sprintf("%s:%d", party, step))
			switch step {
			case 0, 1:
				m.tryReadBy(party)
			case 2, 3:
				m.tryWriteBy(party)
			case 4:
				m.release(m.reads, javaReadRelease, party, ":r")
			case 5:
				m.release(m.writes, javaWriteRelease, party, ":w:write")
			case 6:
				if m.writes[party] == 0 {
					m.loseReads(party)
				}
			case 7:
				m.renewBy(party)
			}
			m.check()
		}
	}
}
