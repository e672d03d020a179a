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
// of it: how often each client holds each side. A client in Go has an owner for
// each side.
type mixed struct {
	*bench
	reads, writes map[string]int
	deaths        map[string]int // how often a client of Redisson died; it comes back with another owner
	log           []string
}

const mixedTTL = 60000

func isJava(client string) bool { return strings.HasPrefix(client, "j") }

func (m *mixed) java(script, client string) any {
	m.t.Helper()
	got, err := m.client.Eval(m.t.Context(), script, []string{lockKey}, m.readOwner(client), mixedTTL, rwPrefix, rwChannel).Result()
	if err != nil && err.Error() != "redis: nil" {
		m.t.Fatalf("%s: %v", client, err)
	}
	return got
}

// granted reports that one of Holdfast's scripts answered with a token.
func granted(reply any) bool {
	_, ok := reply.(int64)
	return ok
}

// othersWrite and othersRead report that somebody but client does.
func (m *mixed) othersWrite(client string) bool { return others(m.writes, client) }
func (m *mixed) othersRead(client string) bool  { return others(m.reads, client) }

func others(holds map[string]int, client string) bool {
	for other, n := range holds {
		if other != client && n > 0 {
			return true
		}
	}
	return false
}

func (m *mixed) tryReadBy(client string) {
	m.t.Helper()
	var ok bool
	if isJava(client) {
		ok = m.java(javaReadAcquire, client) == nil
	} else {
		ok = granted(m.tryRead(client+":r", mixedTTL, 1, client+":w:write"))
	}
	if want := !m.othersWrite(client); ok != want {
		m.fail("read by %s: got a grant %v, want %v", client, ok, want)
	}
	if ok && isJava(client) {
		m.reads[client]++
	} else if ok {
		m.reads[client] = 1
	}
}

func (m *mixed) tryWriteBy(client string) {
	m.t.Helper()
	free := !m.othersWrite(client) && !m.othersRead(client) && (m.reads[client] == 0 || m.writes[client] > 0)
	if isJava(client) {
		ok := m.java(javaWriteAcquire, client) == nil
		if ok && !free {
			m.fail("write by %s: got a grant", client)
		}
		if ok {
			m.writes[client]++
		}
		return
	}
	ok := granted(m.tryWrite(client+":w", mixedTTL, 1))
	if ok != free {
		m.fail("write by %s: got a grant %v, want %v", client, ok, free)
	}
	if ok {
		m.writes[client] = 1
	}
}

// release ends one hold of a thread of Java, or the hold of a client in Go, of the side
// that holds has.
func (m *mixed) release(holds map[string]int, java, client, side string) {
	m.t.Helper()
	if isJava(client) {
		m.java(java, client)
		holds[client] = max(0, holds[client]-1)
		return
	}
	m.leave(client + side)
	holds[client] = 0
}

// loseReads ends all read leases of client; its field stays.
func (m *mixed) loseReads(client string) {
	m.t.Helper()
	for i := 1; i <= m.reads[client]; i++ {
		m.Int("DEL", timeoutKey(m.readOwner(client), i))
	}
	m.reads[client] = 0
	m.deaths[client]++
}

func (m *mixed) readOwner(client string) string {
	if isJava(client) {
		return client + ":" + strconv.Itoa(m.deaths[client])
	}
	return client + ":r"
}

// renewBy renews a read hold of Go, which succeeds if it is held.
func (m *mixed) renewBy(client string) {
	m.t.Helper()
	if isJava(client) {
		return
	}
	ok := m.renewRead(client+":r", mixedTTL, 1) == int64(1)
	if !ok && m.reads[client] > 0 {
		m.fail("renewal by %s: got 0 for a live hold", client)
	}
	if ok {
		if m.othersWrite(client) {
			m.fail("renewal by %s: got 1 beside a writer", client)
		}
		m.reads[client] = 1 // also one whose field had outlived its lease
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
	for client, n := range m.reads {
		if n == 0 {
			continue
		}
		if got := hash[m.readOwner(client)]; got != strconv.Itoa(n) {
			m.fail("%s reads %d times: got count %q", client, n, got)
		}
		if left := m.Int("PTTL", timeoutKey(m.readOwner(client), n)); left <= 0 || left > ttl+5 {
			m.fail("%s reads: its lease has %d ms, the lock %d", client, left, ttl)
		}
	}
	for client, n := range m.writes {
		field := client + ":w:write"
		if isJava(client) {
			field = m.readOwner(client) + ":write"
		}
		if n > 0 && (hash[field] != strconv.Itoa(n) || hash["mode"] != "write" || ttl < mixedTTL-10000) {
			m.fail("%s writes %d times: got count %q, mode %q, TTL %d", client, n, hash[field], hash["mode"], ttl)
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
		clients := []string{"g1", "g2", "j1", "j2"}
		for range 60 {
			client := clients[random.IntN(len(clients))]
			step := random.IntN(8)
			m.log = append(m.log, fmt.Sprintf("%s:%d", client, step))
			switch step {
			case 0, 1:
				m.tryReadBy(client)
			case 2, 3:
				m.tryWriteBy(client)
			case 4:
				m.release(m.reads, javaReadRelease, client, ":r")
			case 5:
				m.release(m.writes, javaWriteRelease, client, ":w:write")
			case 6:
				if m.writes[client] == 0 {
					m.loseReads(client)
				}
			case 7:
				m.renewBy(client)
			}
			m.check()
		}
	}
}
