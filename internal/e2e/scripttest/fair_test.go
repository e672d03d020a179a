package scripttest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// The scripts of the fair lock, on a real server and beside Redisson.

const (
	queueKey    = "redisson_lock_queue:{stock:42}"
	deadlineKey = "redisson_lock_timeout:{stock:42}"
	aliveKey    = "holdfast:fair:{stock:42}"

	presence = 4000   // ms that a waiter of Holdfast counts as alive
	silence  = 300000 // ms that one of Redisson does
)

var fairReleaseKeys = []string{lockKey, queueKey, deadlineKey, aliveKey, counterKey}

func fairMark(owner string) string { return "holdfast:gone:{stock:42}:" + owner }

func fairKeys(owner string) []string {
	return []string{lockKey, fairMark(owner), counterKey, queueKey, deadlineKey, aliveKey}
}

func fairArgs(owner string) []any {
	return []any{owner, 20000, 1, 1, presence, silence, channel + ":", "PUBLISH"}
}

// fairTry runs fair_acquire and reports whether it granted.
func (b *bench) fairTry(owner string) (bool, any) {
	b.t.Helper()
	reply := b.run("fair_acquire", fairKeys(owner), fairArgs(owner)...)
	return granted(reply), reply
}

func (b *bench) fairGrant(owner string) {
	b.t.Helper()
	if granted, reply := b.fairTry(owner); !granted {
		b.t.Fatalf("fair_acquire for %s: got %v, want a grant; queue %q", owner, reply, b.queue())
	}
}

// fairBusy tries for owners, who all have to wait, and returns the last reply.
func (b *bench) fairBusy(owners ...string) (reply []any) {
	b.t.Helper()
	for _, owner := range owners {
		_, answer := b.fairTry(owner)
		if reply, _ = answer.([]any); len(reply) != 6 || reply[0] != int64(0) {
			b.t.Fatalf("fair_acquire for %s: got %v, want busy", owner, answer)
		}
		alive, err := b.client.ZScore(b.t.Context(), aliveKey, owner).Result()
		if err != nil || reply[4] != n(int64(alive)) {
			b.t.Fatalf("fair_acquire for %s: got %v, want it alive until %.0f (error %v)", owner, reply, alive, err)
		}
	}
	return reply
}

// A claim that does not wait is refused without a place, in a lock that is held and in
// one that is another's turn.
func TestFairWithoutAPlace(t *testing.T) {
	b := newBench(t)
	passing := fairArgs("b:1")
	passing[4] = -presence
	refused := func() {
		t.Helper()
		reply, _ := b.run("fair_acquire", fairKeys("b:1"), passing...).([]any)
		if len(reply) != 4 || reply[0] != int64(0) {
			t.Fatalf("got %v, want busy, without a place", reply)
		}
	}
	b.fairGrant("a:1")
	refused()
	b.wantKeys(lockKey, counterKey)
	b.fairBusy("a:2")
	b.fairReleaseFor("a:1", 0)
	refused()
	b.wantQueue("a:2")
	b.fairGrant("a:2")
	b.fairRelease("a:2")
	if reply := b.run("fair_acquire", fairKeys("b:1"), passing...); !granted(reply) {
		t.Fatalf("of a free lock: got %v, want a grant", reply)
	}
}

// fairRelease runs fair_release, which gives the lock to the next.
func (b *bench) fairRelease(owner string) {
	b.t.Helper()
	b.fairReleaseFor(owner, presence)
}

// fairReleaseFor gives the lock to the next for so many ms at most, or only wakes
// it.
func (b *bench) fairReleaseFor(owner string, most int) {
	b.t.Helper()
	got := b.run("fair_release", fairReleaseKeys, owner, 0, channel+":", most, "PUBLISH")
	if code, ok := got.(int64); !ok || code < 1 {
		b.t.Fatalf("fair_release for %s: got %v, want released", owner, got)
	}
}

// fairGiven reads what was heard: that owner, which had tried with that reply, was
// given the lock. It returns the token.
func (b *bench) fairGiven(heard []redistest.Message, owner string, reply []any) int64 {
	b.t.Helper()
	client, _, _ := strings.Cut(owner, ":")
	if len(heard) != 1 || heard[0].Channel != channel+":"+client {
		b.t.Fatalf("messages: got %v, want one for %s", heard, owner)
	}
	parts := strings.SplitN(heard[0].Payload, ":", 4)
	token, err := strconv.ParseInt(parts[0], 10, 64)
	whose := fmt.Sprintf("%d:%s:%s", len(lockKey), lockKey, owner)
	if err != nil || len(parts) != 4 || parts[1] != fmt.Sprint(reply[4]) || parts[3] != whose {
		b.t.Fatalf("message: got %q, want a token, %v and %s", heard[0].Payload, reply[4], whose)
	}
	b.wantHash(map[string]string{owner: "1"})
	lasts, err := strconv.ParseInt(parts[2], 10, 64)
	if ttl := b.Int("PTTL", lockKey); ttl <= 0 || ttl > presence || err != nil || ttl > lasts {
		b.t.Fatalf("lock given to %s: got a TTL of %d ms, want up to %d and to the %s that it was told", owner, ttl, presence, parts[2])
	}
	return token
}

func (b *bench) queue() []string {
	b.t.Helper()
	return b.Strings("LRANGE", queueKey, "0", "-1")
}

func (b *bench) wantQueue(owners ...string) {
	b.t.Helper()
	if got := b.queue(); !slices.Equal(got, owners) {
		b.t.Fatalf("queue: got %q, want %q", got, owners)
	}
	scores := b.Strings("ZRANGE", deadlineKey, "0", "-1")
	slices.Sort(scores)
	sorted := slices.Sorted(slices.Values(owners))
	if !slices.Equal(scores, sorted) {
		b.t.Fatalf("deadlines: got those of %q, want those of %q", scores, sorted)
	}
}

// now is the server's clock in ms.
func (b *bench) now() int64 {
	b.t.Helper()
	clock := b.Strings("TIME")
	s, _ := strconv.ParseInt(clock[0], 10, 64)
	us, _ := strconv.ParseInt(clock[1], 10, 64)
	return s*1000 + us/1000
}

// score is owner's deadline, counted from now.
func (b *bench) score(owner string) int64 {
	b.t.Helper()
	text := b.String("ZSCORE", deadlineKey, owner)
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.t.Fatalf("score of %s: got %q, want an integer: Java cannot read others", owner, text)
	}
	return at - b.now()
}

func (b *bench) wantScore(owner string, want int64) {
	b.t.Helper()
	if got := b.score(owner); got > want || got < want-2000 {
		b.t.Fatalf("deadline of %s: got %d ms from now, want %d", owner, got, want)
	}
}

// vanish makes waiters of Holdfast look as if they had not tried for long.
func (b *bench) vanish(owners ...string) {
	b.t.Helper()
	command, past := []string{"ZADD", aliveKey, "XX"}, fmt.Sprint(b.now()-1)
	for _, owner := range owners {
		command = append(command, past, owner)
	}
	b.Int(command...)
}

// heardBefore publishes an end mark and returns what was heard until then.
func (b *bench) heardBefore(l *redistest.Listener) []redistest.Message {
	b.t.Helper()
	end := fmt.Sprint("end:", b.now(), len(l.Messages()))
	b.Int("PUBLISH", end, "1")
	for n := 1; ; n++ {
		got := l.Wait(n)
		if got[len(got)-1].Channel == end {
			return got[:len(got)-1]
		}
	}
}

func (b *bench) wantMessages(l *redistest.Listener, want ...redistest.Message) {
	b.t.Helper()
	if got := b.heardBefore(l); !slices.Equal(got, want) {
		b.t.Fatalf("messages: got %v, want %v", got, want)
	}
}

// wantPayloads wants these messages on channel, and none on another.
func (b *bench) wantPayloads(l *redistest.Listener, channel string, payloads ...string) {
	b.t.Helper()
	var want []redistest.Message
	for _, payload := range payloads {
		want = append(want, redistest.Message{Channel: channel, Payload: payload})
	}
	b.wantMessages(l, want...)
}

func (b *bench) wantFairTTLs() {
	b.t.Helper()
	b.wantNothingStays()
	if queue, deadlines := b.Int("PTTL", queueKey), b.Int("PTTL", deadlineKey); queue > deadlines+100 || deadlines > queue+100 {
		b.t.Fatalf("PTTL: queue %d, deadlines %d, want the same", queue, deadlines)
	}
	last := b.Strings("ZREVRANGE", deadlineKey, "0", "0")
	if len(last) == 1 && b.Int("PTTL", queueKey) <= b.score(last[0]) {
		b.t.Fatal("the queue ends before its last deadline")
	}
}

// redisson does what Redisson does for its fair lock, by its
// protocol: one operation per call.
const redisson = `
local lock, queue, timeouts = KEYS[1], KEYS[2], KEYS[3]
local op, owner, lease, wait, channel = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function shift(members)
  for _, m in ipairs(members) do redis.call('ZINCRBY', timeouts, -wait, m) end
end
if op == 'giveup' then
  local behind, found = {}, false
  for _, m in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if found then behind[#behind + 1] = m end
    found = found or m == owner
  end
  shift(behind)
  redis.call('ZREM', timeouts, owner)
  redis.call('LREM', queue, 0, owner)
  return 'gone'
end
while true do
  local head = redis.call('LINDEX', queue, 0)
  local score = head and redis.call('ZSCORE', timeouts, head)
  if not score or tonumber(score) > now then break end
  redis.call('ZREM', timeouts, head)
  redis.call('LPOP', queue)
end
if op == 'release' then
  if redis.call('HEXISTS', lock, owner) == 0 then return 'not mine' end
  redis.call('DEL', lock)
  local head = redis.call('LINDEX', queue, 0)
  if head then redis.call('PUBLISH', channel .. head, 0) end
  return 'released'
end
if redis.call('EXISTS', lock) == 0 and (redis.call('EXISTS', queue) == 0 or redis.call('LINDEX', queue, 0) == owner) then
  redis.call('LPOP', queue)
  redis.call('ZREM', timeouts, owner)
  shift(redis.call('ZRANGE', timeouts, 0, -1))
  redis.call('HSET', lock, owner, 1)
  redis.call('PEXPIRE', lock, lease)
  return 'granted'
end
if redis.call('ZSCORE', timeouts, owner) then
  return math.max(0, redis.call('PTTL', lock))
end
local tail, ttl = redis.call('LINDEX', queue, -1), redis.call('PTTL', lock)
if tail and tail ~= owner and redis.call('ZSCORE', timeouts, tail) then
  ttl = tonumber(redis.call('ZSCORE', timeouts, tail)) - now
end
if redis.call('ZADD', timeouts, string.format('%.0f', ttl + wait + now), owner) == 1 then
  redis.call('RPUSH', queue, owner)
end
return ttl
`

// java runs one operation of a Redisson client with the default wait.
func (b *bench) java(op, owner string) any {
	b.t.Helper()
	got, err := b.client.Eval(b.t.Context(), redisson, []string{lockKey, queueKey, deadlineKey},
		op, owner, 30000, silence, channel+":").Result()
	if err != nil {
		b.t.Fatalf("Redisson's %s for %s: %v", op, owner, err)
	}
	return got
}

func (b *bench) wantJava(want, op, owner string) {
	b.t.Helper()
	if got := b.java(op, owner); got != want {
		b.t.Fatalf("Redisson's %s for %s: got %v, want %s; queue %q", op, owner, got, want, b.queue())
	}
}

// The numbers are those observed with Redisson's own scripts.
func TestFairRedissonAsObserved(t *testing.T) {
	b := newBench(t)
	b.wantJava("granted", "acquire", "ja:1")
	for _, c := range []struct {
		owner        string
		reply, score int64
	}{{"jb:1", 30000, 330000}, {"jc:1", 330000, 630000}, {"jb:1", 30000, 330000}} {
		if got, ok := b.java("acquire", c.owner).(int64); !ok || got > c.reply || got < c.reply-2000 {
			t.Fatalf("reply to %s: got %v, want about %d", c.owner, got, c.reply)
		}
		b.wantScore(c.owner, c.score)
	}
}

func TestFairFirstComeFirstServed(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.fairGrant("a:1")
	b.wantHash(map[string]string{"a:1": "1"})
	b.wantTTL(lockKey, 20000)
	b.wantNothingStays()
	b.wantKeys(lockKey, counterKey)
	b.fairBusy("b:1", "c:1", "d:1", "c:1", "b:1", "b:1")
	b.wantQueue("b:1", "c:1", "d:1")
	b.wantFairTTLs()
	for i, owner := range []string{"a:1", "b:1", "c:1"} {
		next := string(owner[0]+1) + ":1"
		most := presence * (i % 2) // the next is woken, or has the lock
		last := b.fairBusy(next)
		b.fairReleaseFor(owner, most)
		if most > 0 {
			b.fairGiven(b.heardBefore(heard), next, last)
		} else {
			b.wantPayloads(heard, channel+":"+next[:1], "0:0:"+next)
		}
		heard = b.Listen("*")
		if next != "d:1" {
			b.fairBusy("d:1", "e:1")
			b.run("fair_release", fairReleaseKeys, "e:1", 0, channel+":", presence)
		}
		b.fairGrant(next)
		b.wantHash(map[string]string{next: "1"})
		b.wantTTL(lockKey, 20000)
	}
	b.wantQueue()
	b.fairRelease("d:1")
	b.wantKeys(counterKey)
}

func TestFairTryAgainIsTheSameClaim(t *testing.T) {
	b := newBench(t)
	_, first := b.fairTry("a:1")
	b.fairBusy("b:1")
	_, second := b.fairTry("a:1")
	if b.token(second) <= b.token(first) {
		t.Fatalf("tokens: got %v and %v, want rising ones", first, second)
	}
	b.wantHash(map[string]string{"a:1": "1"})
	for range 3 {
		if reply := b.fairBusy("b:1"); reply[1].(int64) < 15000 || reply[2] != "a:1" || reply[3] != "1" {
			t.Fatalf("busy: got %v, want the holder and its lease", reply)
		}
	}
	b.wantQueue("b:1")
	b.want(n(1), "renew", []string{lockKey}, "a:1", 60000, 2)
	b.wantHash(map[string]string{"a:1": "2"})
}

func TestFairAndPlainExcludeEachOther(t *testing.T) {
	b := newBench(t)
	b.grant("a:1", 20000, 1, 1)
	b.fairBusy("b:1")
	b.want(n(1), "release", []string{lockKey}, "a:1", channel, "PUBLISH")
	b.fairGrant("b:1")
	if reply := b.run("acquire", threeKeys, "a:2", 20000, 1, 1).([]any); reply[0] != int64(0) {
		t.Fatalf("plain acquire: got %v, want busy", reply)
	}
}

// A lock that is free and another's turn: look again soon, but not at network speed.
func TestFairFreeLockIsTheHeads(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1")
	b.Int("DEL", lockKey) // expires unseen
	for range 2 {
		if reply := b.fairBusy("c:1"); !reflect.DeepEqual(reply[:4], list(n(0), n(100), "", "0")) {
			t.Fatalf("got %v, want busy with a back-off of 100 ms", reply)
		}
	}
	b.Int("ZADD", aliveKey, fmt.Sprint(b.now()+90), "b:1") // less than the usual 100 ms, and time enough to ask
	if reply := b.fairBusy("c:1"); reply[1].(int64) < 10 || reply[1].(int64) > 90 {
		t.Fatalf("got %v, want to come back when the head's time is over", reply)
	}
}

// However many are dead, the one that lives has to wait for none of them twice.
func TestFairDeadHeadsAreDroppedTogether(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	var dead []string
	for i := range 999 {
		dead = append(dead, fmt.Sprint("dead:", i))
	}
	b.fairBusy(dead...)
	b.fairBusy("alive:1")
	b.vanish(dead...)
	b.fairReleaseFor("a:1", 0)
	b.wantQueue("alive:1")
	b.fairGrant("alive:1")
}

// The dead are in nobody's way while the lock is held, and after an outage all
// look dead.
func TestFairKeepsPlacesWhileTheLockIsHeld(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1", "d:1")
	b.vanish("b:1", "c:1", "d:1")
	b.fairBusy("d:1", "c:1", "b:1")
	b.wantQueue("b:1", "c:1", "d:1")
	b.fairRelease("a:1")
	b.fairBusy("c:1")
	b.fairGrant("b:1")
}

func TestFairAnyPollRepairsTheQueue(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1", "d:1")
	b.Int("DEL", lockKey)
	b.vanish("b:1")
	heard := b.Listen("*")
	b.fairBusy("d:1")
	b.wantMessages(heard, redistest.Message{Channel: channel + ":c:1", Payload: "0"}, redistest.Message{Channel: channel + ":c", Payload: "0:0:c:1"})
	b.wantQueue("c:1", "d:1")
	b.fairGrant("c:1")
}

func TestFairGivingUp(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1")
	b.java("acquire", "j:1")
	b.fairBusy("d:1")
	b.Int("RPUSH", queueKey, "c:1") // a queue that others broke
	before := b.score("j:1")
	heard := b.Listen("*")
	b.fairRelease("c:1")
	b.wantQueue("b:1", "j:1", "d:1")
	if after := b.score("j:1"); after < before-1000 {
		t.Fatalf("deadline of the Java waiter: was %d ms from now, is %d", before, after)
	}
	b.want(n(0), "fair_release", fairReleaseKeys, "c:1", 0, channel+":", presence, "PUBLISH")
	b.wantMessages(heard) // none while the lock is held
	b.wantHash(map[string]string{"a:1": "1"})

	heard = b.Listen("*")
	b.Int("DEL", lockKey)
	b.fairRelease("b:1") // the head goes, and the lock is free
	b.wantPayloads(heard, channel+":j:1", "0")
	b.wantJava("granted", "acquire", "j:1")
}

func TestFairAbandon(t *testing.T) {
	b := newBench(t)
	abandon := func(want any, owner string) {
		t.Helper()
		b.want(want, "fair_release", append(slices.Clone(fairReleaseKeys), fairMark(owner)), owner, 20000, channel+":", presence, "PUBLISH")
		b.wantTTL(fairMark(owner), 20000)
		b.want(list(n(-2), "abandoned"), "fair_acquire", fairKeys(owner), fairArgs(owner)...)
	}
	abandon(n(0), "a:1")
	b.fairGrant("b:1")
	b.fairBusy("c:1")
	abandon(n(1), "c:1")
	b.wantQueue()
	abandon(n(1), "b:1")
	b.wantHash(map[string]string{})
	b.wantNothingStays()
}

// Holdfast and Redisson in one queue: a Java waiter that gets the lock takes its
// own wait off everybody's deadline, however long it has waited.
func TestFairSurvivesJavasSubtractions(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.java("acquire", "j:1")
	b.fairBusy("g:1")
	b.java("acquire", "j:2")
	b.wantScore("g:1", 20000+presence+silence)
	// 250 s later, in which g:1 has tried again and again
	for _, owner := range []string{"j:1", "j:2", "g:1"} {
		b.Int("ZADD", deadlineKey, fmt.Sprint(b.now()+b.score(owner)-250000), owner)
	}
	b.fairBusy("g:1")
	b.fairRelease("a:1")
	b.wantJava("granted", "acquire", "j:1")
	b.wantScore("g:1", 20000+presence)
	b.java("acquire", "j:3") // cleans up
	b.wantQueue("g:1", "j:2", "j:3")
	b.wantJava("released", "release", "j:1")
	b.fairGrant("g:1")
	b.wantQueue("j:2", "j:3")
	b.fairRelease("g:1")
	b.wantJava("granted", "acquire", "j:2")
}

// Even one that Java's subtractions made look dead keeps its place in the eyes of
// Holdfast, and is fixed with its next try.
func TestFairTrustsPresenceNotTheScore(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1")
	for _, owner := range []string{"b:1", "c:1"} {
		b.Int("ZADD", deadlineKey, fmt.Sprint(b.now()-200000), owner)
	}
	b.fairReleaseFor("a:1", 0)
	b.fairBusy("c:1")
	b.wantScore("c:1", presence)
	b.wantQueue("b:1", "c:1")
	b.fairGrant("b:1")
}

// A dead waiter of Holdfast delays Java no longer than its presence and what is
// left of the lease.
func TestFairDeadWaiterAndJava(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1", "d:1")
	for _, owner := range []string{"b:1", "c:1", "d:1"} {
		b.wantScore(owner, 20000+presence) // no more for being behind
	}
	b.Int("ZADD", deadlineKey, fmt.Sprint(b.now()+silence), "b:1") // of a Java waiter that died before it
	b.fairBusy("b:1")
	b.wantScore("b:1", 20000+presence)
	b.java("acquire", "j:1")
	b.wantScore("j:1", 20000+presence+silence)
	b.Int("PEXPIRE", lockKey, "1000")
	b.fairBusy("b:1")
	b.wantScore("b:1", 1000+presence)
	b.fairBusy("d:1")
	b.wantScore("d:1", 20000+presence) // never lowered while others are before it
}

func TestFairDropsSilentJava(t *testing.T) {
	b := newBench(t)
	b.wantJava("granted", "acquire", "j:0")
	b.java("acquire", "j:1")
	b.fairBusy("g:1")
	b.wantJava("released", "release", "j:0")
	b.fairBusy("g:1")
	b.wantQueue("j:1", "g:1")
	b.Int("ZADD", deadlineKey, fmt.Sprint(b.now()-1), "j:1")
	b.fairGrant("g:1")
	b.wantQueue()
}

// Redisson itself waits forever for a head without a deadline.
func TestFairMendsAHeadWithoutDeadline(t *testing.T) {
	b := newBench(t)
	b.Int("RPUSH", queueKey, "lost:1")
	b.fairBusy("b:1")
	b.wantQueue("lost:1", "b:1")
	b.wantScore("lost:1", presence)
	b.wantFairTTLs()
	b.Int("ZADD", deadlineKey, fmt.Sprint(b.now()-1), "lost:1") // and its time passes
	b.fairGrant("b:1")
	b.wantQueue()

	b.String("FLUSHALL")
	b.fairGrant("a:1")
	b.Int("RPUSH", queueKey, "lost:1")
	heard := b.Listen("*")
	b.fairRelease("a:1")
	b.wantPayloads(heard, channel+":lost:1", "0") // it may be alive
}

func TestFairOnAFullServer(t *testing.T) {
	b := newBench(t)
	b.fill()
	refused := func(owner string) {
		t.Helper()
		b.wantOOM(script{"fair_acquire", fairKeys(owner), fairArgs(owner)})
	}
	refused("a:1")
	b.String("CONFIG", "SET", "maxmemory", "0")
	b.fairGrant("a:1")
	b.fairBusy("b:1")
	b.fill()
	refused("c:1")
	b.wantQueue("b:1")
	b.Int("ZREM", deadlineKey, "b:1")
	b.fairBusy("b:1") // who is queued stays queued
	b.wantQueue("b:1")
	b.fairGrant("a:1")
	b.fairReleaseFor("a:1", 0)
	refused("b:1")
	b.wantQueue("b:1")
	b.fairRelease("b:1")
	b.wantQueue()

	b.String("CONFIG", "SET", "maxmemory", "0")
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1")
	b.fill()
	b.fairRelease("a:1") // room for the next's hold was made by this one's
	b.wantHash(map[string]string{"b:1": "1"})
	b.fairGrant("b:1")
	b.wantQueue("c:1")
	b.wantFairTTLs()
	b.fairRelease("b:1")
	b.fairRelease("c:1")
	b.wantProbePasses(fairKeys("probe"), "fair_acquire", "fair_release")
}

// Whatever is lost of a queue, or about to end, the next try fixes.
func TestFairQueueNeverStaysNorEndsEarly(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1")
	for _, owner := range []string{"c:1", "d:1"} { // one that remains, one that comes
		for _, key := range []string{queueKey, deadlineKey, aliveKey} {
			b.Int("PEXPIRE", key, "3000")
		}
		b.fairBusy(owner)
		b.wantFairTTLs()
	}
	for _, key := range []string{queueKey, deadlineKey, aliveKey} { // as Redisson makes them
		b.Int("PERSIST", key)
	}
	b.fairBusy("b:1")
	b.wantFairTTLs()
	for _, key := range []string{aliveKey, deadlineKey} { // evicted
		for _, owner := range []string{"c:1", "d:1", "e:1"} {
			b.Int("DEL", key)
			b.fairBusy(owner)
			b.wantNothingStays()
		}
	}
}

// The keys that are left when the dead were dropped have a TTL, too.
func TestFairQueueAfterTheDead(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("dead:1")
	b.java("acquire", "j:1")
	b.vanish("dead:1")
	b.Int("DEL", lockKey)
	b.fairBusy("g:1") // drops it, and with it the last that was Holdfast's
	b.wantQueue("j:1", "g:1")
	b.wantFairTTLs()
	b.wantScore("g:1", presence+silence)
}

// Those who are not Holdfast's are counted, wherever they stand, and not more
// than once; one that is no longer in the queue counts for nobody.
func TestFairCountsStrangers(t *testing.T) {
	b := newBench(t)
	b.wantJava("granted", "acquire", "j:0")
	b.java("acquire", "j:1")
	b.Int("ZADD", aliveKey, fmt.Sprint(b.now()-1), "dropped:1")
	wantStrangers := func(owner string, want int64) {
		t.Helper()
		b.Int("PEXPIRE", lockKey, "30000")
		if reply := b.fairBusy(owner); reply[5] != want {
			t.Fatalf("%s: got %v, want %d strangers before it", owner, reply, want)
		}
		b.wantScore(owner, 30000+presence+want*silence)
	}
	wantStrangers("g:1", 1)
	var many []string
	for i := range 1100 {
		many = append(many, fmt.Sprint("m:", i))
	}
	b.fairBusy(many...)
	b.java("acquire", "j:2")
	wantStrangers("g:2", 2)
	wantStrangers("g:2", 2)
	wantStrangers("g:1", 1)
	b.wantJava("released", "release", "j:0")
	b.wantJava("granted", "acquire", "j:1")
	wantStrangers("m:7", 0)
}

// Who breaks a lock does not know whose turn it is.
func TestFairWakeTellsWhoeverIsFirst(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	wake := func(receivers int64) {
		t.Helper()
		b.want(n(receivers), "fair_wake", []string{queueKey}, channel+":", "PUBLISH")
	}
	wake(0)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1")
	wake(2)
	b.wantMessages(heard, redistest.Message{Channel: channel + ":b:1", Payload: "0"}, redistest.Message{Channel: channel + ":b", Payload: "0:0:b:1"})
}

// A release that cannot give the lock, for the counter is no number, is one.
func TestFairReleaseWithABrokenCounter(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1")
	b.String("SET", counterKey, "x")
	heard := b.Listen("*")
	b.fairRelease("a:1")
	b.wantPayloads(heard, channel+":b", "0:0:b:1")
	b.wantHash(map[string]string{})
	b.wantQueue("b:1")
}

// A lock that somebody else holds is not given away.
func TestFairLeavingTheQueueGivesNothing(t *testing.T) {
	b := newBench(t)
	b.fairGrant("a:1")
	b.fairBusy("b:1", "c:1")
	b.fairRelease("b:1")
	b.wantHash(map[string]string{"a:1": "1"})
	b.wantQueue("c:1")
}
