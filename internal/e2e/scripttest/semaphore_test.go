package scripttest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/redishold"
)

// The scripts of semaphores, each by itself on a real server.

const (
	jobs        = "jobs"
	jobsPermits = "{jobs}:timeout"
	jobsMark    = "holdfast:gone:{jobs}:a:1"
	jobsCall    = "holdfast:call:{jobs}:x"
	jobsChannel = "redisson_sc:{jobs}"

	neverEnds = "922337203685477" // the score of Redisson's permits without a lease
)

var (
	jobsKeys  = []string{jobs, jobsPermits, jobsMark, counterKey}
	plainKeys = []string{jobs, jobsCall}

	idA, idB, idC = "aaaaaaaaaaaaaaaa", "bbbb\x00bbb\xffbbbbbbb", "cccccccccccccccc"
)

func (b *bench) permit(id string, ttl, total int) any {
	b.t.Helper()
	return b.run("semaphore_acquire", jobsKeys, id, ttl, total, 1, jobsChannel, "PUBLISH")
}

// grantPermit acquires a permit, which must be granted, and returns the token.
func (b *bench) grantPermit(id string, ttl, total int) int64 {
	b.t.Helper()
	reply := b.permit(id, ttl, total)
	if more, ok := reply.([]any); ok && len(more) == 3 && more[0] == n(2) {
		b.grantedOf(more[2], total)
		reply = more[1]
	}
	return b.token(reply)
}

// grantedOf checks that a grant says how many permits there are: where they are not
// as many as the claim has.
func (b *bench) grantedOf(all any, total int) {
	b.t.Helper()
	count := b.run("semaphore_count", []string{jobs, jobsPermits}).([]any)
	if all != count[1] || all == any(int64(total)) {
		b.t.Fatalf("granted of %v permits for a claim of %d, want %v", all, total, count[1])
	}
}

// wantPermits checks the counter, and the ids that are out.
func (b *bench) wantPermits(free string, ids ...string) {
	b.t.Helper()
	if got := b.Do("GET", jobs); got != any(free) {
		b.t.Fatalf("counter: got %v, want %s", got, free)
	}
	got := b.Strings("ZRANGE", jobsPermits, "0", "-1")
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		b.t.Fatalf("permits out: got %q, want %q", got, ids)
	}
}

// permitEnds is when a permit ends, in ms from now.
func (b *bench) permitEnds(id string) int64 {
	b.t.Helper()
	score, err := strconv.ParseInt(b.String("ZSCORE", jobsPermits, id), 10, 64)
	if err != nil {
		b.t.Fatalf("score of a permit: %v; Java reads no such number", err)
	}
	return score - time.Now().UnixMilli()
}

// out makes a permit end in so many ms, as another client would.
func (b *bench) out(id string, in int64) {
	b.t.Helper()
	b.Int("ZADD", jobsPermits, strconv.FormatInt(time.Now().UnixMilli()+in, 10), id)
}

func TestSemaphoreAcquireGrants(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	first := b.grantPermit(idA, 20000, 2)
	b.wantPermits("1", idA)
	if got := b.permitEnds(idA); got > 20001 || got < 15000 {
		t.Fatalf("score: got %d ms ahead, want 20000", got)
	}
	for _, key := range []string{jobs, jobsPermits} { // Java would not extend a TTL for its longer permits
		if got := b.Int("PTTL", key); got != -1 {
			t.Fatalf("PTTL of %s: got %d, want none", key, got)
		}
	}
	second := b.grantPermit(idB, 20000, 7)
	if second <= first {
		t.Fatalf("tokens: got %d after %d", second, first)
	}
	b.wantPermits("0", idA, idB)
	reply := b.permit(idC, 20000, 2).([]any)
	if reply[0] != int64(0) || reply[1].(int64) < 15000 || reply[1].(int64) > 20001 || reply[2] != idA || reply[3] != "1" {
		t.Fatalf("got %v, want busy until the first lease ends, and whose", reply)
	}
	b.wantPermits("0", idA, idB)
	b.wantPayloads(heard, jobsChannel, "1") // the permits left when the name was new
}

func TestSemaphoreReclaims(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.String("SET", jobs, "0")
	b.Int("ZADD", jobsPermits, neverEnds, idB)
	b.out("old1", -1)
	b.out("old2", -1)
	b.out("old3", -5000)
	b.grantPermit(idA, 20000, 1)
	b.wantPermits("2", idA, idB)
	b.out(idA, -1) // its own permit has ended: it gets a new one, and does not count twice
	b.grantPermit(idA, 20000, 1)
	b.wantPermits("2", idA, idB)
	b.wantPayloads(heard, jobsChannel, "2", "2")
	if score := b.String("ZSCORE", jobsPermits, idB); score != neverEnds {
		t.Fatalf("score of Java's permit: got %s, want it untouched", score)
	}
}

// availablePermits is what Redisson's does, by hand: all that have expired at once.
const availablePermits = `
local expired = redis.call('zrangebyscore', KEYS[2], 0, ARGV[1])
if #expired > 0 then
  redis.call('zrem', KEYS[2], unpack(expired))
  return redis.call('incrby', KEYS[1], #expired)
end
return tonumber(redis.call('get', KEYS[1]))`

func TestSemaphoreReclaimsVeryMany(t *testing.T) {
	b := newBench(t)
	const many = 8001
	b.String("SET", jobs, strconv.Itoa(-many+1)) // resized down meanwhile: one becomes free when all are back
	for first := 0; first < many; first += 1000 {
		args := []string{"ZADD", jobsPermits}
		for i := first; i < min(first+1000, many); i++ {
			args = append(args, "1000", fmt.Sprintf("expired%09d", i))
		}
		b.Int(args...)
	}
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	if _, err := b.client.Eval(t.Context(), availablePermits, []string{jobs, jobsPermits}, now).Result(); err == nil {
		t.Fatal("Redisson's availablePermits works with so many: this test proves nothing")
	}
	tries := 0
	for ; ; tries++ {
		reply := b.permit(idA, 20000, 1)
		if granted(reply) {
			break
		}
		if reply.([]any)[1] != int64(0) || tries > many/1000 {
			t.Fatalf("try %d: got %v, want it to go on at once", tries, reply)
		}
	}
	b.wantPermits("0", idA)
	if got, err := b.client.Eval(t.Context(), availablePermits, []string{jobs, jobsPermits}, now).Result(); err != nil || got != int64(0) {
		t.Fatalf("availablePermits: got %v and error %v, want 0", got, err)
	}
}

// An expired permit of its own may lie behind more than one call takes back.
func TestSemaphoreReclaimsItsOwnFirst(t *testing.T) {
	b := newBench(t)
	b.String("SET", jobs, "0")
	args := []string{"ZADD", jobsPermits}
	for i := range 1500 {
		args = append(args, "1000", fmt.Sprintf("expired%09d", i))
	}
	b.Int(args...)
	b.out(idA, -1)
	b.grantPermit(idA, 20000, 1)
	b.want(list(n(1), n(1501), n(1500)), "semaphore_count", []string{jobs, jobsPermits})
}

// A counter that was evicted is made again around the permits that are out.
func TestSemaphoreLosesItsCounter(t *testing.T) {
	b := newBench(t)
	b.grantPermit(idA, 20000, 3)
	b.grantPermit(idB, 20000, 3)
	b.Int("DEL", jobs)
	b.want(n(1), "semaphore_release", []string{jobs, jobsPermits}, idA, jobsChannel, "PUBLISH")
	b.out("old", -1)
	b.grantPermit(idC, 20000, 3)
	b.wantPermits("1", idB, idC)
}

// Redisson can give a semaphore a TTL; then it ends as a whole.
func TestSemaphoreInheritsTTL(t *testing.T) {
	b := newBench(t)
	b.String("SET", jobs, "2", "PX", "30000")
	b.grantPermit(idA, 20000, 2)
	b.wantTTL(jobsPermits, 30000)
	b.wantTTL(jobs, 30000)
	b.want(list(n(1), n(0)), "semaphore_resize", []string{jobs, jobsPermits}, 5, jobsChannel, "PUBLISH")
	b.wantTTL(jobs, 30000)
}

func TestSemaphoreRenewsNoEndedPermit(t *testing.T) {
	b := newBench(t)
	permits := []string{jobsPermits}
	b.grantPermit(idA, 20000, 1)
	b.out(idA, -1)
	b.want(n(0), "semaphore_renew", permits, idA, 20000)
	if got := b.permitEnds(idA); got > 0 {
		t.Fatalf("an ended permit was brought back for %d ms", got)
	}
}

func TestSemaphoreRelease(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	keys := []string{jobs, jobsPermits}
	b.grantPermit(idA, 20000, 2)
	b.grantPermit(idB, 20000, 2)
	b.want(n(2), "semaphore_release", keys, idA, jobsChannel, "PUBLISH")
	b.wantPermits("1", idB)
	b.out(idB, -1) // released, but no success: it had ended
	b.want(n(0), "semaphore_release", keys, idB, jobsChannel, "PUBLISH")
	b.wantPermits("2")
	b.grantPermit(idC, 20000, 2)
	b.want(list(n(1), n(0)), "semaphore_resize", keys, 1, jobsChannel, "", "PUBLISH")
	b.want(list(n(1), n(0)), "semaphore_resize", keys, 0, jobsChannel, "PUBLISH")
	b.want(n(1), "semaphore_release", keys, idC, jobsChannel, "PUBLISH")
	b.wantPermits("0")
	b.wantPayloads(heard, jobsChannel, "1", "1", "2") // the new counter, and never less than 1
}

func TestSemaphoreBreak(t *testing.T) {
	b := newBench(t)
	keys := jobsKeys[:3]
	b.want(n(0), "semaphore_force", keys, idA, "why", 20000, jobsChannel, "PUBLISH")
	b.grantPermit(idA, 20000, 3)
	b.grantPermit(idB, 20000, 3)
	b.grantPermit(idC, 20000, 3)
	b.out(idC, -1) // what has ended is left to the next acquire
	heard := b.Listen("*")
	b.want(n(0), "semaphore_force", keys, idC, "why", 20000, jobsChannel, "PUBLISH")
	b.wantPermits("0", idA, idB, idC)
	if got := b.Do("EXISTS", jobsMark); got != any(int64(0)) {
		t.Fatal("a permit that had ended, or never was, left a mark")
	}
	b.want(n(2), "semaphore_force", keys, idA, "INC-7", 20000, jobsChannel, "PUBLISH")
	b.wantPermits("1", idB, idC)
	b.wantTTL(jobsMark, 20000)
	b.want(list(n(1), "", "forced: INC-7", n(1)), "explain", []string{jobs, jobsMark, counterKey})
	if got := b.permit(idA, 20000, 3); !reflect.DeepEqual(got, list(n(-2), "forced: INC-7")) {
		t.Fatalf("got %v, want a late acquire refused", got)
	}
	b.want(n(0), "semaphore_force", keys, idA, "again", 20000, jobsChannel, "PUBLISH")

	b.Int("ZADD", jobsPermits, neverEnds, idB)
	b.Int("DEL", jobsMark)
	b.want(n(2), "semaphore_force", keys[:2], idB, "why", 20000, jobsChannel, "PUBLISH") // an owner who is not known
	b.wantPermits("2", idC)
	if left := b.Keys(); len(left) != 3 {
		t.Fatalf("got the keys %q, want no mark", left)
	}
	b.wantPayloads(heard, jobsChannel, "1", "2") // the permits that are free
}

// Below what is held nothing becomes free, and a lost counter is not made up.
func TestSemaphoreBreakWithoutStock(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.String("SET", jobs, "-1")
	b.out(idA, 20000)
	b.out(idB, 20000)
	b.want(n(1), "semaphore_force", jobsKeys[:3], idA, "why", 20000, jobsChannel, "PUBLISH")
	b.wantPermits("0", idB)
	b.Int("DEL", jobs)
	b.want(n(1), "semaphore_force", jobsKeys[:3], idB, "why", 20000, jobsChannel, "PUBLISH")
	if left := b.Keys(); !slices.Equal(left, []string{jobsMark}) {
		t.Fatalf("got the keys %q, want the mark alone", left)
	}
	b.wantMessages(heard)
}

func TestSemaphoreResizeAndCount(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	keys := []string{jobs, jobsPermits}
	b.want(list(n(0), n(0), n(0)), "semaphore_count", keys)
	b.want(list(n(1), n(1)), "semaphore_resize", keys, 3, jobsChannel, "PUBLISH")
	b.grantPermit(idA, 20000, 9)
	b.grantPermit(idB, 20000, 9)
	b.out("old", -1)
	b.Int("DECR", jobs)
	b.want(list(n(1), n(3), n(1)), "semaphore_count", keys)
	b.wantPermits("0", idA, idB, "old") // counting writes nothing
	for range 2 {
		b.want(list(n(1), n(0)), "semaphore_resize", keys, 1, jobsChannel, "", "PUBLISH")
		b.wantPermits("-1", idA, idB)
		b.want(list(n(1), n(1), n(-1)), "semaphore_count", keys)
	}
	b.want(list(n(1), n(1)), "semaphore_resize", keys, 5, jobsChannel, "PUBLISH")
	b.wantPermits("3", idA, idB)
	b.wantPayloads(heard, jobsChannel, "3", "3")
	b.String("SET", jobs, "text")
	b.want(list(n(-1), n(0), n(0)), "semaphore_count", keys)
	b.want(list(n(-1), n(0)), "semaphore_resize", keys, 5, jobsChannel, "PUBLISH")
	b.wantPermits("text", idA, idB)
}

func TestPlainSemaphoreScripts(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	key := []string{jobs}
	call := func(id string) []string { return []string{jobs, "holdfast:call:{jobs}:" + id} }
	twice := func(want any, script string, keys []string, args ...any) { // a lost reply
		t.Helper()
		b.want(want, script, keys, args...)
		l := slices.Clone(want.([]any))
		if strings.HasPrefix(script, "permits_give") || strings.HasPrefix(script, "permits_set") {
			l[1] = n(0) // it publishes once
		}
		b.want(l, script, keys, args...)
	}
	b.want(list(n(1), n(0)), "permits_count", key)
	twice(list(n(0), n(0)), "permits_take", call("early"), 1, 60000, "0")
	twice(list(n(1), n(1)), "permits_set", call("set"), 5, 60000, jobsChannel, "PUBLISH")
	twice(list(n(0), n(0)), "permits_set", call("set2"), 9, 60000, jobsChannel, "PUBLISH")
	b.Int("PEXPIRE", jobs, "50000") // it keeps its TTL through all that follows
	twice(list(n(1), n(0)), "permits_take", call("take"), 3, 60000, "0")
	b.want(list(n(1), n(2)), "permits_count", key)
	b.want(list(n(0), n(2)), "permits_take", call("much"), 3, 60000, "0")
	twice(list(n(1), n(1)), "permits_give", call("give"), 2, 60000, jobsChannel, "PUBLISH")
	b.want(list(n(1), n(4)), "permits_count", key)
	twice(list(n(1), n(4)), "permits_drain", call("drain"), 60000)
	b.want(list(n(1), n(0)), "permits_count", key)
	twice(list(n(1), n(0)), "permits_give", call("less"), -2, 60000, jobsChannel, "PUBLISH")
	b.want(list(n(1), n(-2)), "permits_count", key)
	twice(list(n(1), n(0)), "permits_drain", call("drain2"), 60000)
	b.want(list(n(1), n(-2)), "permits_count", key)
	twice(list(n(1), n(0)), "permits_give", call("zero"), 2, 60000, jobsChannel, "PUBLISH")
	b.wantTTL(jobs, 50000)
	b.wantPayloads(heard, jobsChannel, "5", "4") // the new value, and never less than 1
	if stay := b.KeysWithoutTTL(); len(stay) > 0 {
		t.Fatalf("marks without TTL: %q", stay)
	}
	b.String("SET", jobs, "text")
	b.want(list(n(-1), n(0)), "permits_count", key)
	for script, args := range map[string][]any{
		"permits_take": {1, 60000, "0"}, "permits_give": {1, 60000, jobsChannel}, "permits_drain": {60000}, "permits_set": {1, 60000, jobsChannel},
	} {
		b.want(list(n(-1), n(0)), script, call(script), args...)
	}
}

func TestPlainSemaphoreUndo(t *testing.T) {
	b := newBench(t)
	heard := b.Listen("*")
	b.String("SET", jobs, "3")
	// It overtakes the attempt, which then takes nothing.
	b.want(list(n(0), n(0)), "permits_undo", plainKeys, 2, 60000, jobsChannel, "PUBLISH")
	b.want(list(n(0), n(0)), "permits_take", plainKeys, 2, 60000, "0")
	b.want(list(n(1), n(3)), "permits_count", plainKeys[:1])

	b.Int("DEL", jobsCall)
	b.want(list(n(1), n(0)), "permits_take", plainKeys, 2, 60000, "0")
	b.want(list(n(1), n(1)), "permits_undo", plainKeys, 2, 60000, jobsChannel, "PUBLISH")
	b.want(list(n(0), n(0)), "permits_undo", plainKeys, 2, 60000, jobsChannel, "PUBLISH")
	b.want(list(n(0), n(0)), "permits_take", plainKeys, 2, 60000, "0")
	b.want(list(n(1), n(3)), "permits_count", plainKeys[:1])

	// A refusal that follows an attempt without an answer binds that one too.
	b.Int("DEL", jobsCall)
	b.want(list(n(0), n(3)), "permits_take", plainKeys, 4, 60000, "1")
	b.Int("INCRBY", jobs, "9")
	b.want(list(n(0), n(0)), "permits_take", plainKeys, 4, 60000, "0")
	b.wantPayloads(heard, jobsChannel, "3")
}

func TestPlainSemaphoreOnAFullServer(t *testing.T) {
	b := newBench(t)
	b.String("SET", jobs, "3")
	b.want(list(n(1), n(0)), "permits_take", []string{jobs, "holdfast:call:{jobs}:y"}, 1, 60000, "0")
	b.fill()
	for name, args := range map[string][]any{"permits_take": {1, 60000, "0"}, "permits_set": {1, 60000, jobsChannel, "PUBLISH"}} {
		keys := plainKeys
		if name == "permits_set" {
			keys = []string{"other", "holdfast:call:{other}:x"}
		}
		b.wantOOM(script{name, keys, args})
	}
	b.want(list(n(1), n(0)), "permits_undo", []string{jobs, "holdfast:call:{jobs}:y"}, 1, 60000, jobsChannel, "PUBLISH")
	b.want(list(n(1), n(0)), "permits_give", plainKeys, 2, 60000, jobsChannel, "PUBLISH")
	b.want(list(n(1), n(5)), "permits_count", plainKeys[:1])
	b.want(list(n(1), n(5)), "permits_drain", []string{jobs, "holdfast:call:{jobs}:z"}, 60000)
}

// The engine over these scripts.

func TestRedisholdSemaphoreLayout(t *testing.T) {
	server, b := startStore(t, &redishold.Options{KeyPrefix: "app:"})
	c := kindClaim("permit", jobs, "1")
	c.Permits = 3
	mustGrant(t, b, c)
	stem := strings.ReplaceAll(c.Client[:23], "-", "")
	id, err := hex.DecodeString(stem + "000000000001")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := server.Strings("ZRANGE", "{app:jobs}:timeout", "0", "-1"), []string{string(id)}; !slices.Equal(got, want) {
		t.Fatalf("permits out: got %q, want %q", got, want)
	}
	if got := server.String("GET", "app:holdfast:client:"+stem); got != c.Client {
		t.Fatalf("registration of the stem: got %s, want %s", got, c.Client)
	}
	if got := server.Int("PTTL", "app:holdfast:client:"+stem); got < 85_000 || got > 90_000 {
		t.Fatalf("registration of the stem: got %d ms, want 90 s", got)
	}
	if total, free, err := b.Permits(bounded(t), jobs); err != nil || total != 3 || free != 2 {
		t.Fatalf("Permits: got %d, %d and error %v", total, free, err)
	}
	h := mustLook(t, b, jobs)[c.Owner]
	mustForce(t, b, jobs, h, "why")
	if err := b.ForceUnlock(bounded(t), jobs, h, "why"); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("ForceUnlock once more: got %v, want ErrGone", err)
	}
	var lost *driver.GoneError
	if r, err := b.Renew(bounded(t), []driver.Claim{c}); err != nil || !errors.As(r[0].Err, &lost) || lost.Reason != driver.ReasonForced || !strings.Contains(lost.Detail, "why") {
		t.Fatalf("Renew of a broken permit: got %+v and error %v, want it forced, and why", r, err)
	}
	if _, free, err := b.Permits(bounded(t), jobs); err != nil || free != 3 {
		t.Fatalf("Permits: got %d free and error %v, want 3", free, err)
	}
	mutex := claim(jobs, "2")
	if _, err := b.Try(bounded(t), mutex); !errors.Is(err, driver.ErrMismatch) {
		t.Fatalf("a semaphore as a mutex: got %v, want ErrMismatch", err)
	}
	server.String("SET", "app:text", "text")
	if records, err := b.Get(bounded(t), "text"); err != nil || records[0].Kind != admin.KindOther {
		t.Errorf("Get of text: got %+v and error %v, want another kind", records, err)
	}
	for what, err := range map[string]error{
		"Resize": b.Resize(bounded(t), "text", 3),
		"Add":    b.PlainSemaphore("text").Add(bounded(t), 1),
	} {
		if !errors.Is(err, driver.ErrMismatch) {
			t.Errorf("%s of text: got %v, want ErrMismatch", what, err)
		}
	}
	if err := b.Resize(bounded(t), jobs, -1); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Resize to -1: got %v, want ErrRefused", err)
	}
}

func TestPlainSemaphore(t *testing.T) {
	server, b := startStore(t, nil)
	s := b.PlainSemaphore(jobs)
	ctx := bounded(t)
	if set, err := s.TrySet(ctx, 2); err != nil || !set {
		t.Fatalf("TrySet: got %v and error %v", set, err)
	}
	if set, err := s.TrySet(ctx, 5); err != nil || set {
		t.Fatalf("TrySet again: got %v and error %v", set, err)
	}
	if err := s.Acquire(ctx, 2); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	if taken, err := s.TryAcquire(ctx, 1); err != nil || taken {
		t.Fatalf("TryAcquire: got %v and error %v, want none left", taken, err)
	}
	heard := server.Listen("*")
	got := make(chan error, 1)
	go func() { got <- s.Acquire(ctx, 2) }()
	await.Until(t, 5*time.Second, "the waiter listens", func() bool {
		return server.Do("PUBSUB", "NUMSUB", jobsChannel).([]any)[1] == any(int64(1))
	})
	server.Int("INCRBY", jobs, "2") // as Java's release
	server.Int("PUBLISH", jobsChannel, "2")
	if err := <-got; err != nil {
		t.Fatalf("Acquire that waited: %v", err)
	}
	if err := s.Release(ctx, 3); err != nil {
		t.Fatalf("Release: %v", err)
	}
	if n, err := s.Available(ctx); err != nil || n != 3 {
		t.Fatalf("Available: got %d and error %v, want 3", n, err)
	}
	if err := s.Add(ctx, -1); err != nil {
		t.Fatalf("Add: %v", err)
	}
	if n, err := s.Drain(ctx); err != nil || n != 2 {
		t.Fatalf("Drain: got %d and error %v, want 2", n, err)
	}
	(&bench{Server: server, t: t}).wantPayloads(heard, jobsChannel, "2", "3", "2")
	if stay := server.KeysWithoutTTL(func(key string) bool { return key == jobs }); len(stay) > 0 {
		t.Fatalf("keys without TTL: %q", stay)
	}
}
