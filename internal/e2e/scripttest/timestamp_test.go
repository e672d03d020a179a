package scripttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/redishold"
)

// Protocol Timestamp: its scripts, redishold with it, and old clients beside it,
// on a real server.

const recordKey = "holdfast:ts:{stock:42}"

var (
	stampKeys = []string{lockKey, markKey, counterKey, recordKey}
	heldKeys  = []string{lockKey, recordKey}
	endKeys   = []string{lockKey, recordKey, markKey}
)

func TestTimestampConformance(t *testing.T) {
	_, b := startStore(t, &redishold.Options{Layout: redishold.Timestamp})
	drivertest.Suite{Open: func(*testing.T) driver.Backend { return newExclusive(b) }, TTL: 2 * time.Second}.Run(t)
}

func (b *bench) stampGrant(owner string, ttl, tokens int) int64 {
	b.t.Helper()
	return b.token(b.run("timestamp_acquire", stampKeys, owner, ttl, tokens))
}

// second returns the server's clock in whole seconds, at the very beginning of
// one, so that what a test does next stays within it.
func (b *bench) second() int64 {
	b.t.Helper()
	for {
		now := b.now()
		if now%1000 < 300 {
			return now / 1000
		}
		time.Sleep(time.Duration(1001-now%1000) * time.Millisecond)
	}
}

// stamp returns the lock's value as a number.
func (b *bench) stamp() int64 {
	b.t.Helper()
	value := b.String("GET", lockKey)
	s, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		b.t.Fatalf("value: got %q, want whole seconds: old clients cannot read others", value)
	}
	return s
}

// wantStamp checks that the lock says what an owner with so much lease left
// needs: a second that is not earlier, nor later than the next whole one, on a
// key that outlives it; and that the record agrees.
func (b *bench) wantStamp(owner string, ttl, began int64) {
	b.t.Helper()
	stamp := b.stamp()
	latest := b.now() + 1 // now leaves out what is less than a millisecond
	if stamp*1000 < began+ttl || stamp*1000 >= latest+ttl+1000 {
		b.t.Fatalf("value: got %d, want the first whole second from %d ms on", stamp, began+ttl)
	}
	if left := b.Int("PTTL", recordKey); left > ttl || left < ttl-1000 {
		b.t.Fatalf("PTTL of the record: got %d, want at most %d", left, ttl)
	}
	if past := b.now() + b.Int("PTTL", lockKey); past < stamp*1000 {
		b.t.Fatalf("the key goes at %d, before its time %d: old clients would take it for free", past, stamp*1000)
	}
	b.wantValue(recordKey, fmt.Sprintf("%d %s", stamp, owner))
	b.wantNothingStays()
}

// TestTimestampStampIsNeverShort takes leases of many lengths at many moments.
func TestTimestampStampIsNeverShort(t *testing.T) {
	b := newBench(t)
	for range 60 {
		ttl := 1000 + rand.N(3000)
		began := b.now()
		b.stampGrant("a:1", ttl, 1)
		b.wantStamp("a:1", int64(ttl), began)
		b.want(n(1), "timestamp_release", heldKeys, "a:1", freeChannel, "PUBLISH")
		b.wantKeys(counterKey)
	}
}

func TestTimestampAgainstValues(t *testing.T) {
	b := newBench(t)
	for i := range stampCases(0) {
		now := b.second() // for each again, as some are about what is left of it
		c := stampCases(now)[i]
		b.String("FLUSHALL")
		b.setUp(c.setup)
		before := b.Do("DUMP", lockKey)
		reply, err := eval(t, b.client, "timestamp_acquire", stampKeys, "a:1", 20000, 1)
		if got := stampAnswer(reply, err, c.want); got != c.want {
			t.Errorf("%s: got %v and error %v, want %s", c.name, reply, err, c.want)
		}
		if after := b.Do("DUMP", lockKey); c.want != "granted" && !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the key changed: got %q, want %q", c.name, after, before)
		}
		if c.want == "granted" {
			b.wantStamp("a:1", 20000, now*1000)
		}
	}
}

// stampCase is a try of a lock whose keys are as setup makes them.
type stampCase struct {
	name  string
	setup [][]string
	want  string // granted, mismatch, WRONGTYPE, mark, or "busy <from> <to> <holder>" with ms
}

// stampCases returns those for the second now.
func stampCases(now int64) []stampCase {
	at := func(s int64) string { return strconv.FormatInt(s, 10) }
	return []stampCase{
		{"free", nil, "granted"},
		{"an old client's time in the future", [][]string{{"SET", lockKey, at(now + 30)}}, "busy 30000 31000 "},
		{"a fraction", [][]string{{"SET", lockKey, at(now+30) + ".75"}}, "busy 30000 31000 "},
		{"forever, as old redis-py writes it", [][]string{{"SET", lockKey, "2147483649.0"}}, "busy 1000000 3000000000000 "},
		{"this second: whole-second clients still hold it", [][]string{{"SET", lockKey, at(now)}}, "busy 1 1000 "},
		{"the last second", [][]string{{"SET", lockKey, at(now - 1)}}, "granted"},
		{"long ago", [][]string{{"SET", lockKey, at(now - 1000)}}, "granted"},
		{"this second, written by Holdfast", [][]string{{"SET", lockKey, at(now), "PX", "9000"}}, "granted"},
		{"the next second, written by Holdfast", [][]string{{"SET", lockKey, at(now + 1), "PX", "9000"}}, "busy 1 1000 "},
		{"another owner", [][]string{{"SET", lockKey, at(now + 9), "PX", "9000"}, {"SET", recordKey, at(now+9) + " b:1", "PX", "8000"}}, "busy 7000 9000 b:1"},
		{"another owner, overwritten with a past time", [][]string{{"SET", lockKey, at(now - 5)}, {"SET", recordKey, at(now+9) + " b:1", "PX", "8000"}}, "busy 6000 8000 b:1"},
		{"another owner, deleted by an old client", [][]string{{"SET", recordKey, at(now+9) + " b:1", "PX", "8000"}}, "busy 6000 8000 b:1"},
		{"own", [][]string{{"SET", lockKey, at(now + 9), "PX", "9000"}, {"SET", recordKey, at(now+9) + " a:1", "PX", "8000"}}, "granted"},
		{"own, overwritten by a loser", [][]string{{"SET", lockKey, at(now + 11)}, {"SET", recordKey, at(now+9) + " a:1", "PX", "8000"}}, "granted"},
		{"own, overwritten with an earlier time", [][]string{{"SET", lockKey, at(now + 5)}, {"SET", recordKey, at(now+9) + " a:1", "PX", "8000"}}, "busy 5000 6000 "},
		{"own, deleted", [][]string{{"SET", recordKey, at(now+9) + " a:1", "PX", "8000"}}, "granted"},
		{"given up", [][]string{{"SET", markKey, "abandoned"}}, "mark"},
		{"text", [][]string{{"SET", lockKey, "MTIzNDU2"}}, "mismatch"},
		{"an empty value", [][]string{{"SET", lockKey, ""}}, "mismatch"},
		{"milliseconds", [][]string{{"SET", lockKey, at(now * 1000)}}, "mismatch"},
		{"a small number", [][]string{{"SET", lockKey, "1"}}, "mismatch"},
		{"hexadecimal", [][]string{{"SET", lockKey, "0x77777777"}}, "mismatch"},
		{"not a number", [][]string{{"SET", lockKey, "nan"}}, "mismatch"},
		{"a hash", [][]string{{"HSET", lockKey, "a:1", "1"}}, "WRONGTYPE"},
	}
}

// stampAnswer puts an answer into the words of TestTimestampAgainstValues, and
// returns want for a busy that lies within it.
func stampAnswer(reply any, err error, want string) string {
	if err != nil {
		if strings.Contains(err.Error(), "WRONGTYPE") {
			return "WRONGTYPE"
		}
		return err.Error()
	}
	l, _ := reply.([]any)
	switch {
	case granted(reply):
		return "granted"
	case len(l) == 1 && l[0] == n(-1):
		return "mismatch"
	case len(l) == 2 && l[0] == n(-2):
		return "mark"
	case len(l) == 4 && l[0] == n(0):
		var from, to int64
		_, _ = fmt.Sscanf(want, "busy %d %d", &from, &to)
		if left := l[1].(int64); left >= from && left <= to && want == fmt.Sprintf("busy %d %d %s", from, to, l[2]) {
			return want
		}
	}
	return fmt.Sprint(reply)
}

// TestTimestampRenewKnowsLosersFromWinners is the rule for a value that is not
// the one that the owner wrote.
func TestTimestampRenewKnowsLosersFromWinners(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name   string
		change func(stamp int64)
		kept   bool
	}{
		{"unchanged", func(int64) {}, true},
		{"a loser's GETSET, a little later", func(s int64) { b.String("GETSET", lockKey, strconv.FormatInt(s+1, 10)) }, true},
		{"a loser's GETSET, forever", func(int64) { b.String("GETSET", lockKey, "2147483649.0") }, true},
		{"a GETSET with an earlier time", func(s int64) { b.String("GETSET", lockKey, strconv.FormatInt(s-1, 10)) }, false},
		{"a DEL", func(int64) { b.Int("DEL", lockKey) }, false},
		{"garbage", func(int64) { b.String("SET", lockKey, "text") }, false},
		{"the record is gone", func(int64) { b.Int("DEL", recordKey) }, false},
		{"the record is another's", func(s int64) { b.String("SET", recordKey, fmt.Sprintf("%d b:1", s), "PX", "9000") }, false},
	} {
		for _, script := range []string{"timestamp_renew", "timestamp_release", "timestamp_abandon"} {
			b.String("FLUSHALL")
			b.stampGrant("a:1", 10000, 1)
			c.change(b.stamp())
			changed, began := b.Do("GET", lockKey), b.now()
			switch script {
			case "timestamp_renew":
				want := n(0)
				if c.kept {
					want = n(1)
				}
				b.want(want, script, heldKeys, "a:1", 20000)
				if c.kept {
					b.wantStamp("a:1", 20000, began)
					continue
				}
			case "timestamp_release":
				b.want(ended(c.kept), script, heldKeys, "a:1", freeChannel, "PUBLISH")
			case "timestamp_abandon":
				b.want(ended(c.kept), script, endKeys, "a:1", 20000, freeChannel, "PUBLISH")
				b.wantTTL(markKey, 20000)
			}
			if got := b.Do("GET", lockKey); c.kept && got != nil || !c.kept && got != changed {
				t.Errorf("%s: %s left %v, had found %v", c.name, script, got, changed)
			}
			if record := b.String("GET", recordKey); strings.HasSuffix(record, " a:1") {
				t.Errorf("%s: %s left the record %q", c.name, script, record)
			}
		}
	}
}

func ended(yes bool) any {
	if yes {
		return n(1)
	}
	return n(0)
}

func TestTimestampBreakAndLook(t *testing.T) {
	b := newBench(t)
	look := func(want string) []any {
		t.Helper()
		reply := b.run("list_timestamp", heldKeys, 512, "", freeChannel).([]any)[0].([]any)
		if len(reply) != 5 || reply[0] != want {
			t.Fatalf("look: got %v, want %s", reply, want)
		}
		return reply
	}
	look("free")
	b.stampGrant("a:1", 10000, 1)
	if got := look("string"); got[2] != "a:1" || got[4].(int64) < 9000 || got[4].(int64) > 10000 {
		t.Fatalf("look at a lock: got %v, want a:1 and its lease", got)
	}
	stamp := b.stamp()
	b.want(n(0), "timestamp_force", endKeys, "b:1", "ops", 20000, freeChannel, "PUBLISH")
	b.want(n(0), "timestamp_force", endKeys, fmt.Sprint(stamp), "ops", 20000, freeChannel, "PUBLISH")
	b.want(n(1), "timestamp_force", endKeys, "a:1", "ops", 20000, freeChannel, "PUBLISH")
	b.want(list(n(0), "", "forced: ops", n(1)), "timestamp_explain", stampKeys)
	b.Int("DEL", markKey)

	b.stampGrant("b:1", 10000, 1)
	b.want(list(n(1), "b:1", "", n(1)), "timestamp_explain", stampKeys)
	b.Int("DEL", recordKey) // its lease is over, the second it wrote is not
	look("free")
	b.want(list(n(0), "", "", n(1)), "timestamp_explain", stampKeys)

	old := fmt.Sprint(b.second() + 30)
	b.String("SET", lockKey, old)
	if got := look("string"); got[1] != n(-1) || got[2] != old || got[4].(int64) < 29000 || got[4].(int64) > 31000 {
		t.Fatalf("look at an old client's lock: got %v", got)
	}
	b.want(list(n(1), "a client that writes timestamps", "", n(1)), "timestamp_explain", stampKeys)
	b.want(n(1), "timestamp_force", endKeys, old, "ops", 20000, freeChannel, "PUBLISH")
	look("free")
	b.String("SET", lockKey, "1000000000")
	look("free")
	b.String("SET", lockKey, "text")
	look("other")
	b.Int("DEL", lockKey)
	b.Int("HSET", recordKey, "a", "1")
	look("other")
}

// oldClient is a program that locks with SETNX, GET and GETSET, by its own clock.
type oldClient struct {
	client  *redis.Client
	name    string
	timeout time.Duration
	skew    time.Duration // how far its clock runs ahead
	until   int64         // what it wrote
}

func (o *oldClient) now() int64 { return time.Now().Add(o.skew).Unix() }

// try is the recipe of the SETNX page of Redis' manual.
func (o *oldClient) try(ctx context.Context) (bool, error) {
	until := o.now() + int64(o.timeout/time.Second) + 1
	set, err := o.client.SetNX(ctx, o.name, until, 0).Result()
	if err != nil || set {
		o.until = until
		return set, err
	}
	if past, err := o.past(o.client.Get(ctx, o.name)); !past || err != nil {
		return false, err
	}
	until = o.now() + int64(o.timeout/time.Second) + 1
	won, err := o.past(o.client.GetSet(ctx, o.name, until)) //nolint:staticcheck // the old command is the point
	o.until = until
	return won, err
}

// past says that a value is an earlier time than now. No value is past, too.
func (o *oldClient) past(cmd *redis.StringCmd) (bool, error) {
	value, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	until, err := strconv.ParseInt(value, 10, 64)
	return until < o.now(), err
}

// unlock deletes the lock unless its time is over.
func (o *oldClient) unlock(ctx context.Context) error {
	if o.now() > o.until {
		return nil
	}
	return o.client.Del(ctx, o.name).Err()
}

// stampRun is a crowd of old and new clients of one name.
type stampRun struct {
	t      *testing.T
	b      driver.Backend
	client *redis.Client
	ctx    context.Context
	began  time.Time

	inside         atomic.Int32
	token          atomic.Uint64
	old, new, lost atomic.Int64
}

// runs reports that the crowd goes on: for its time, and then for as long as a crash
// with the lock has kept nearly everybody out, which costs up to two seconds each.
func (r *stampRun) runs() bool {
	return r.ctx.Err() == nil || !r.enough() && time.Since(r.began) < time.Minute
}

// enough reports that both sorts of clients held often enough to prove something.
func (r *stampRun) enough() bool { return r.old.Load() >= 5 && r.new.Load() >= 5 }

func (r *stampRun) report() {
	r.t.Helper()
	r.t.Logf("old clients held %d times, new ones %d times, of which %d saw a loss", r.old.Load(), r.new.Load(), r.lost.Load())
	if !r.enough() {
		r.t.Error("too few to prove anything")
	}
}

// hold is what a lock protects.
func (r *stampRun) hold(who string) {
	if n := r.inside.Add(1); n != 1 {
		r.t.Errorf("%s: %d holders at once", who, n)
	}
	time.Sleep(rand.N(3 * time.Millisecond)) // the work; others must stay out of it
	r.inside.Add(-1)
}

// oldLoop locks as an old client; now and then it crashes with the lock.
func (r *stampRun) oldLoop(o oldClient, counted bool) {
	for r.runs() {
		held, err := o.try(context.WithoutCancel(r.ctx))
		if err != nil {
			r.t.Errorf("old client: %v", err)
			return
		}
		if held {
			r.old.Add(1)
			if counted {
				r.hold("an old client")
			}
			if rand.N(30) > 0 {
				if err := o.unlock(context.WithoutCancel(r.ctx)); err != nil {
					r.t.Errorf("old client: %v", err)
				}
			}
		}
		time.Sleep(rand.N(4 * time.Millisecond))
	}
}

// newLoop locks with Holdfast; now and then it crashes with the lock.
func (r *stampRun) newLoop(i int) {
	for k := 0; r.runs(); k++ {
		c := claim("stock:42", fmt.Sprint(1000*i+k))
		c.TTL = time.Second
		o, err := r.b.Try(context.WithoutCancel(r.ctx), c)
		if err != nil {
			r.t.Errorf("Try: %v", err)
			return
		}
		if o.Granted {
			r.new.Add(1)
			if last := r.token.Swap(o.Token); o.Token <= last {
				r.t.Errorf("got token %d after %d", o.Token, last)
			}
			r.hold("a new client")
			r.leave(c)
		}
		time.Sleep(rand.N(4 * time.Millisecond))
	}
}

// leave renews, and releases or crashes.
func (r *stampRun) leave(c driver.Claim) {
	answers, err := r.b.Renew(context.WithoutCancel(r.ctx), []driver.Claim{c})
	if err != nil {
		r.t.Errorf("Renew: %v", err)
	}
	if err == nil && answers[0].Err != nil {
		r.lost.Add(1)
		return
	}
	if rand.N(30) > 0 {
		if err := r.b.Release(context.WithoutCancel(r.ctx), c); err != nil && !errors.Is(err, driver.ErrGone) {
			r.t.Errorf("Release: %v", err)
		}
	}
}

func newStampRun(t *testing.T, length time.Duration) *stampRun {
	t.Helper()
	bench := newBench(t)
	client := redis.NewClient(&redis.Options{Addr: bench.Addr(), Protocol: 2, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), length)
	t.Cleanup(cancel)
	b := redishold.New(connect(t, bench.Addr(), "", ""), &redishold.Options{Layout: redishold.Timestamp})
	return &stampRun{t: t, b: b, client: client, ctx: ctx, began: time.Now()}
}

func TestTimestampExcludesOldClientsWithRightClocks(t *testing.T) {
	r := newStampRun(t, 8*time.Second)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { r.newLoop(i) })
		wg.Go(func() {
			r.oldLoop(oldClient{client: r.client, name: "stock:42", timeout: time.Second}, true)
		})
	}
	wg.Wait()
	r.report()
}

// Old clients whose clocks run ahead take locks away and delete them. New clients
// are still never two at once.
func TestTimestampWrongClocksDoNotShakeNewClients(t *testing.T) {
	r := newStampRun(t, 6*time.Second)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { r.newLoop(i) })
	}
	for _, skew := range []time.Duration{time.Minute, 2 * time.Second, -2 * time.Second} {
		wg.Go(func() {
			r.oldLoop(oldClient{client: r.client, name: "stock:42", timeout: time.Second, skew: skew}, false)
		})
	}
	wg.Wait()
	r.report()
}

func TestTimestampLossToAnOldClient(t *testing.T) {
	r := newStampRun(t, 10*time.Second)
	old := oldClient{client: r.client, name: "stock:42", timeout: 30 * time.Second}
	c := claim("stock:42", "1")
	c.TTL = time.Second
	if o := mustTry(t, r.b, c); !o.Granted || o.ValidFor != c.TTL {
		t.Fatalf("got %+v, want a grant for 1s", o)
	}
	began := time.Now()
	for held := false; !held; {
		var err error
		if held, err = old.try(r.ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(began); took < c.TTL {
		t.Fatalf("an old client took the lock after %v, within the lease of %v", took, c.TTL)
	}
	if answers, err := r.b.Renew(r.ctx, []driver.Claim{c}); err != nil || !isNotOwner(answers[0].Err, "writes timestamps") {
		t.Fatalf("Renew: got %+v and error %v, want NotOwner", answers, err)
	}
	if err := r.b.Release(r.ctx, c); !isNotOwner(err, "writes timestamps") {
		t.Fatalf("Release: got %v, want NotOwner", err)
	}
	o := mustTry(t, r.b, c)
	if o.Granted || o.RetryAfter < 25*time.Second || o.RetryAfter > 33*time.Second {
		t.Fatalf("got %+v, want busy for about 31s", o)
	}
	if err := old.unlock(r.ctx); err != nil {
		t.Fatal(err)
	}
	if o := mustTry(t, r.b, c); !o.Granted {
		t.Fatalf("got %+v, want a grant", o)
	}
	if held, err := old.try(r.ctx); held || err != nil {
		t.Fatalf("an old client: got %v and error %v, want it kept out", held, err)
	}
	r.client.Set(r.ctx, "stock:42", "text", 0)
	if _, err := r.b.Try(r.ctx, claim("stock:42", "2")); !errors.Is(err, driver.ErrMismatch) {
		t.Fatalf("garbage: got %v, want ErrMismatch", err)
	}
}
