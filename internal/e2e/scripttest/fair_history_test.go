package scripttest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Random histories of a fair lock. The clock of the server stands still until a step of the
// history moves it. So all numbers that the scripts answer and write are known.

const (
	day = 24 * 60 * 60 * 1000 // ms

	histories = 120
	steps     = 80
)

// The owners of a history. Two of Holdfast's share a client.
var (
	fairOwners     = []string{"a:1", "a:2", "b:1", "c:1", "d:1"}
	redissonOwners = []string{"ja:1", "jb:1", "jc:1"}
)

// TestFairHistories compares the scripts of the fair lock with fairState after each step of
// random histories. The name of a subtest is its seed, so -run repeats a history.
func TestFairHistories(t *testing.T) {
	b := newBench(t, redistest.ShiftableClock())
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			h := &history{
				bench:  &bench{Server: b.Bind(t), t: t, client: b.client},
				random: rand.New(rand.NewPCG(seed, 0)), at: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
			}
			h.heard = h.Listen("*")
			h.String("FLUSHALL")
			h.pass(0)
			for range steps {
				h.step()
			}
		})
	}
}

// history is a random history of a fair lock, on a server and in its state.
type history struct {
	*bench
	heard  *redistest.Listener
	random *rand.Rand
	at     time.Time // on the server's clock
	past   []string  // the steps so far
	state  *fairState
	read   int // how many messages of heard were compared
}

// step does one thing at random.
func (h *history) step() {
	owner, java := oneOf(h.random, fairOwners), oneOf(h.random, redissonOwners)
	switch p := h.random.IntN(100); {
	case p < 45:
		h.acquire(fairAttempt{
			owner: owner, ttl: oneOf(h.random, []int64{1000, 20000}), tokens: 1 + h.random.Int64N(3),
			holds: fmt.Sprint(1 + h.random.IntN(2)), waits: h.random.IntN(5) > 0,
		})
	case p < 57:
		h.release(h.holderOr(owner), h.random.Int64N(3)*presence/2, 0)
	case p < 60:
		h.release(h.holderOr(owner), presence, 20000)
	case p < 63:
		h.check("renew", h.state.renew(owner, 20000, "2"), "renew", []string{lockKey}, owner, 20000, "2")
	case p < 66:
		h.force()
	case p < 74:
		h.redisson("acquire", java)
	case p < 79:
		h.redisson("release", h.state.holder)
	case p < 82:
		h.redisson("giveup", java)
	case p < 95:
		h.pass(oneOf(h.random, []time.Duration{1, 500, presence - 1, presence, presence + 1, 21000, 100000, silence, 2 * silence}) * time.Millisecond)
	default:
		h.damage(owner)
	}
}

func oneOf[T any](random *rand.Rand, all []T) T { return all[random.IntN(len(all))] }

// holderOr returns the holder, half of the time.
func (h *history) holderOr(owner string) string {
	if h.state.holder != "" && h.random.IntN(2) == 0 {
		return h.state.holder
	}
	return owner
}

func (h *history) acquire(c fairAttempt) {
	args := fairArgs(c.owner)
	args[1], args[2], args[3] = c.ttl, c.holds, c.tokens
	if !c.waits {
		args[4] = -presence
	}
	reply := h.state.acquire(c)
	h.check(fmt.Sprintf("acquire %+v", c), reply, "fair_acquire", fairKeys(c.owner), args...)
	if busy, ok := reply.([]any); ok && len(busy) == 6 {
		h.wantKept()
	}
}

func (h *history) release(owner string, most, tombstoneTTL int64) {
	keys := fairReleaseKeys
	if tombstoneTTL > 0 {
		keys = append(slices.Clone(keys), fairMark(owner))
	}
	what := fmt.Sprintf("release %s, most %d, tombstone %d", owner, most, tombstoneTTL)
	h.check(what, h.state.release(owner, most, tombstoneTTL), "fair_release", keys, owner, tombstoneTTL, channel+":", most, "PUBLISH")
}

// force ends the hold of the present holder, and wakes the first in the queue.
func (h *history) force() {
	if owner, holds := h.state.holder, h.state.holds; owner != "" {
		h.check("force "+owner, h.state.force(20000), "force", []string{lockKey, fairMark(owner)}, owner, holds, "ops", 20000, channel, "PUBLISH")
	}
	if len(h.state.queue) > 0 {
		h.state.wake()
	}
	h.check("wake", n(int64(len(h.state.sent))), "fair_wake", []string{queueKey}, channel+":", "PUBLISH")
}

// check runs a script after the state has done the same. It compares the replies, the
// messages, and the states after that.
func (h *history) check(what string, reply any, script string, keys []string, args ...any) {
	h.t.Helper()
	h.past = append(h.past, what)
	got := h.run(script, keys, args...)
	if !reflect.DeepEqual(got, reply) {
		h.t.Errorf("reply: got %v, want %v", got, reply)
	}
	if sent := h.messages(); !slices.Equal(sent, h.state.sent) {
		h.t.Errorf("messages: got %v, want %v", sent, h.state.sent)
	}
	want := h.state
	want.queue, want.sent = append([]string(nil), want.queue...), nil
	h.readState()
	if !reflect.DeepEqual(h.state, want) {
		h.t.Errorf("state: got  %+v\nwant %+v", h.state, want)
	}
	if h.t.Failed() {
		h.t.Fatalf("the history until then:\n%s", strings.Join(h.past, "\n"))
	}
}

// wantKept wants each key of the queue to have a TTL, which ends half a day after the last
// deadline or later.
func (h *history) wantKept() {
	h.t.Helper()
	last := h.state.now
	for _, deadline := range h.state.deadlines {
		last = max(last, deadline)
	}
	for _, key := range []string{queueKey, deadlineKey, aliveKey} {
		if ttl := h.Int("PTTL", key); ttl < last-h.state.now+day/2 || ttl > 2*day {
			h.t.Fatalf("TTL of %s: got %d ms; the last deadline is in %d\n%s", key, ttl, last-h.state.now, strings.Join(h.past, "\n"))
		}
	}
}

// redisson runs an operation of Redisson, and reads the state anew: the model has no rules
// of Redisson.
func (h *history) redisson(op, owner string) {
	h.past = append(h.past, "redisson "+op+" "+owner)
	h.java(op, owner)
	h.messages()
	h.readState()
}

// damage changes the queue as evictions, old versions and operators do.
func (h *history) damage(owner string) {
	commands := [][]string{
		{"DEL", queueKey},
		{"DEL", deadlineKey},
		{"DEL", aliveKey},
		{"PERSIST", queueKey},
		{"PEXPIRE", queueKey, "3000"},
		{"RPUSH", queueKey, "lost:1"},
		{"ZADD", deadlineKey, "XX", fmt.Sprint(h.state.now - 200000), owner},
		{"INCRBY", counterKey, "1000000000"},
		{"DEL", counterKey},
	}
	if len(h.state.queue) > 0 {
		commands = append(commands, []string{"RPUSH", queueKey, oneOf(h.random, h.state.queue)})
	}
	if len(h.state.alive) > 0 { // waiters of Holdfast that Redisson dropped a day ago
		commands = append(commands, []string{"ZADD", aliveKey, fmt.Sprint(h.state.now - day), "dropped:1", fmt.Sprint(h.state.now - day + 1), "dropped:2"})
	}
	command := oneOf(h.random, commands)
	h.past = append(h.past, strings.Join(command, " "))
	h.Int(command...)
	h.readState()
}

// pass lets time pass.
func (h *history) pass(d time.Duration) {
	h.t.Helper()
	h.past = append(h.past, fmt.Sprint(d, " pass"))
	h.at = h.at.Add(d)
	if !h.StopClock(h.at) {
		h.t.Skip("this server counts the time itself")
	}
	h.readState()
}

// messages returns those since the last call.
func (h *history) messages() []redistest.Message {
	h.t.Helper()
	h.Int("PUBLISH", "end", "")
	for wait := h.read + 1; ; wait++ {
		got := h.heard.Wait(wait)
		if last := len(got) - 1; got[last].Channel == "end" {
			sent := got[h.read:last]
			h.read = len(got)
			return sent
		}
	}
}

const fairStateScript = `
local lock, queue, deadlines, alive, counter = unpack(KEYS, 1, 5)
local tombstones = {}
for i = 6, #KEYS do
  tombstones[i - 5] = {redis.call('GET', KEYS[i]) or '', redis.call('PTTL', KEYS[i])}
end
return {
  redis.call('GET', counter) or '0', redis.call('HGETALL', lock), redis.call('PTTL', lock), redis.call('LRANGE', queue, 0, -1),
  redis.call('ZRANGE', deadlines, 0, -1, 'WITHSCORES'), redis.call('ZRANGE', alive, 0, -1, 'WITHSCORES'), tombstones,
}`

// readState reads the state from the server.
func (h *history) readState() {
	h.t.Helper()
	owners := slices.Concat(fairOwners, redissonOwners)
	keys := []string{lockKey, queueKey, deadlineKey, aliveKey, counterKey}
	for _, owner := range owners {
		keys = append(keys, fairMark(owner))
	}
	reply, err := h.client.Eval(h.t.Context(), fairStateScript, keys).Slice()
	if err != nil {
		h.t.Fatal(err)
	}
	state := &fairState{now: h.at.UnixMilli(), token: h.number(reply[0]), tombstones: map[string]tombstone{}}
	if hash := reply[1].([]any); len(hash) == 2 {
		state.holder, state.holds, state.ends = hash[0].(string), hash[1].(string), state.now+reply[2].(int64)
	}
	for _, owner := range reply[3].([]any) {
		state.queue = append(state.queue, owner.(string))
	}
	state.deadlines, state.alive = h.scores(reply[4]), h.scores(reply[5])
	for i, one := range reply[6].([]any) {
		if stone := one.([]any); stone[0] != "" {
			state.tombstones[owners[i]] = tombstone{stone[0].(string), state.now + stone[1].(int64)}
		}
	}
	h.state = state
}

func (h *history) scores(reply any) map[string]int64 {
	scores := map[string]int64{}
	for pair := range slices.Chunk(reply.([]any), 2) {
		scores[pair[0].(string)] = h.number(pair[1])
	}
	return scores
}

// number reads an integer, as Java does: others it cannot read.
func (h *history) number(text any) int64 {
	h.t.Helper()
	number, err := strconv.ParseInt(text.(string), 10, 64)
	if err != nil {
		h.t.Fatal(err)
	}
	return number
}
