package scripttest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// spot is where a name's keys are: docs/redis.md has the rules.
type spot struct {
	prefix, name string
	lock, tag    string
	own          string // a key of Holdfast's own beside it, with * for what it is
	counter      string // what the key of the token counter begins with
	free         string // the channel of the layouts of Holdfast's own
}

func spots() []spot {
	return []spot{
		{"", "orders", "orders", "{orders}", "holdfast:*:{orders}", "holdfast:token:{", "holdfast:free:{orders}"},
		{"", "{t1}:orders", "{t1}:orders", "{t1}:orders", "holdfast:*:{t1}:orders", "holdfast:token:{", "holdfast:free::{t1}:orders"},
		{"app:", "orders", "app:orders", "{app:orders}", "app:holdfast:*:{app:orders}", "app:holdfast:token:{", "holdfast:free:{app:orders}"},
		{"app:", "{t}orders", "app:{t}orders", "app:{t}orders", "app:holdfast:*:app:{t}orders", "app:holdfast:token:{", "holdfast:free::app:{t}orders"},
		{"{app}:", "orders", "{app}:orders", "{app}:orders", "{app}:orders:holdfast:*", "{app}:holdfast:token", "holdfast:free::{app}:orders"},
		{"a{", "b}c", "a{b}c", "a{b}c", "a{b}c:holdfast:*", "a{holdfast:token", "holdfast:free::a{b}c"},
	}
}

func (s spot) beside(what string) string { return strings.Replace(s.own, "*", what, 1) }

// kept is how a kind of lock is kept at a spot, by one with two holds and a second claim.
type kept struct {
	kind     string
	opts     redishold.Options
	value    fields // of the lock; nil: not looked at
	beside   []string
	channel  string
	payloads []string // of a release; that of a fair lock is a grant
	counter  string
}

func (s spot) kinds(one driver.Claim) []kept {
	lock, rw := "redisson_lock__channel:"+s.tag, "redisson_rwlock:"+s.tag
	queue := []string{"redisson_lock_queue:" + s.tag, "redisson_lock_timeout:" + s.tag, s.beside("fair")}
	mutex := fields{one.Owner: "2"}
	return []kept{
		{"mutex", redishold.Options{}, mutex, nil, lock, []string{"0"}, s.counter},
		{"mutex", redishold.Options{SharedTokens: true}, mutex, nil, lock, []string{"0"}, "redisson_lock_token:" + s.tag},
		{"fair", redishold.Options{}, mutex, queue, lock + ":" + one.Client, nil, s.counter},
		{"write", redishold.Options{}, fields{"mode": "write", one.Owner + ":write": "2"}, nil, rw, []string{"1", "0"}, s.counter},
		{"read", redishold.Options{}, fields{"mode": "read", one.Owner: "2"}, []string{s.tag + ":" + one.Owner + ":rwlock_timeout:1"}, rw, []string{"0"}, s.counter},
		{"permit", redishold.Options{}, fields{"": "0"}, []string{s.tag + ":timeout"}, "redisson_sc:" + s.tag, []string{"1"}, s.counter},
		{"mutex", redishold.Options{Layout: redishold.Plain}, fields{"": one.Owner}, nil, s.free, []string{"0"}, s.counter},
		{"mutex", redishold.Options{Layout: redishold.Timestamp}, nil, []string{s.beside("ts")}, s.free, []string{"0"}, s.counter},
	}
}

// TestRedisholdLayout has every kind of lock at every spot, and looks at the keys, what
// is in them, how long they last, and what is published.
func TestRedisholdLayout(t *testing.T) {
	b := newBench(t)
	one := claim("", "1")
	for _, s := range spots() {
		for _, k := range s.kinds(one) {
			k.opts.KeyPrefix = s.prefix
			t.Run(fmt.Sprintf("%s/%s/%s/%s", s.lock, k.opts.Layout, k.kind, k.counter), func(t *testing.T) {
				b.String("FLUSHALL")
				b.in(t).wantKept(s, k, redishold.New(connect(t, b.Addr(), "", ""), &k.opts))
			})
		}
		b.String("FLUSHALL")
		b.wantLatchKept(s, redishold.New(connect(t, b.Addr(), "", ""), &redishold.Options{KeyPrefix: s.prefix}))
	}
}

func (b *bench) wantKept(s spot, k kept, store *redishold.Backend) {
	t := b.t
	t.Helper()
	next := 0
	another := func() driver.Claim {
		next++
		c := kindClaim(k.kind, s.name, strconv.Itoa(next))
		c.Count, c.Tokens, c.TTL = 2, 64, 30*time.Second
		return c
	}
	one, two := another(), another()
	first := mustGrant(t, store, one)
	if k.value != nil && !maps.Equal(b.fieldsOf(s.lock), k.value) {
		t.Errorf("the lock is %v, want %v", b.fieldsOf(s.lock), k.value)
	}
	if k.kind != "read" {
		mustRefuse(t, store, two)
		once := another()
		once.NoQueue = true
		if o := mustRefuse(t, store, once); o.Holder != "ci@host:4121" || o.RetryAfter <= 25*time.Second || o.RetryAfter > 31*time.Second {
			t.Errorf("got %+v, want busy for 30 s, held by ci@host:4121", o)
		}
	}
	b.wantPlaced(s, k, first.Token+63)
	counted := func(holds int) int {
		if k.kind == "permit" || k.opts.Layout != redishold.Redisson {
			return 1
		}
		return holds
	}
	b.wantHeld(store, one, counted(2))
	one.Count, one.TTL = 3, time.Minute
	mustRenewOn(t, store, one)
	b.wantHeld(store, one, counted(3))

	two.Indeterminate = true
	_ = store.Release(bounded(t), two) // nil where it was queued
	b.wantTTL(s.beside("gone")+":"+two.Owner, 30_000)
	for _, h := range mustLook(t, store, s.name) {
		mustForce(t, store, s.name, h, "why")
	}
	b.wantValue(s.beside("gone")+":"+one.Owner, "forced: why")
	b.wantTTL(s.beside("gone")+":"+one.Owner, 60_001) // the lease of a permit is rounded up

	held, waits := another(), another()
	mustGrant(t, store, held)
	if k.kind == "fair" {
		mustRefuse(t, store, waits)
	}
	heard := b.Listen("*")
	mustRelease(t, store, held)
	if k.kind != "fair" { // whose lock is the next one's now
		b.wantReleased(s, k)
	}
	var payloads []string
	for _, m := range b.heardBefore(heard) {
		if m.Channel != k.channel {
			t.Errorf("a message on %q, want %q", m.Channel, k.channel)
		}
		payloads = append(payloads, m.Payload)
	}
	switch {
	case k.kind != "fair" && !slices.Equal(payloads, k.payloads):
		t.Errorf("payloads: got %q, want %q", payloads, k.payloads)
	case k.kind == "fair" && (len(payloads) != 1 || strings.HasPrefix(payloads[0], "0") || !strings.HasSuffix(payloads[0], ":"+s.lock+":"+waits.Owner)):
		t.Errorf("payloads: got %q, want that the lock was given to %s", payloads, waits.Owner)
	}
}

// wantReleased wants nothing of a lock to be left but the counter, tombstones and
// registrations, and the number of permits.
func (b *bench) wantReleased(s spot, k kept) {
	b.t.Helper()
	for _, key := range b.Keys() {
		mark := strings.HasPrefix(key, s.beside("gone")) || strings.HasPrefix(key, s.prefix+"holdfast:client:")
		if !mark && !strings.HasPrefix(key, k.counter) && (k.kind != "permit" || key != s.lock) {
			b.t.Errorf("a release left %q", key)
		}
	}
}

// wantPlaced wants the keys of a lock, the counter at that token, and registrations of
// the client; and of these only what has a TTL that may not have one.
func (b *bench) wantPlaced(s spot, k kept, token uint64) {
	b.t.Helper()
	var got []string
	for _, key := range b.Keys() {
		switch {
		case strings.HasPrefix(key, k.counter):
			b.wantValue(key, strconv.FormatUint(token, 10))
		case !strings.HasPrefix(key, s.prefix+"holdfast:client:"):
			got = append(got, key)
		}
	}
	want := append([]string{s.lock}, k.beside...)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("keys: got %q, want %q", got, want)
	}
	stays := func(key string) bool {
		return strings.HasPrefix(key, k.counter) || k.kind == "permit" && slices.Contains(want, key)
	}
	if stay := b.KeysWithoutTTL(stays); len(stay) > 0 {
		b.t.Errorf("keys without TTL: %q", stay)
	}
}

// wantHeld wants c to be seen as a holder, with its lease and its holds.
func (b *bench) wantHeld(store *redishold.Backend, c driver.Claim, holds int) {
	b.t.Helper()
	h, ok := mustLook(b.t, store, c.Name)[c.Owner]
	if !ok || h.Note != "ci@host:4121" || h.Holds != holds || h.Remaining <= c.TTL-5*time.Second || h.Remaining > c.TTL+time.Millisecond {
		b.t.Errorf("got holder %+v, want %s with %d holds for %v", h, c.Owner, holds, c.TTL)
	}
}

// wantLatchKept wants a latch, and its calls, to be kept at s.
func (b *bench) wantLatchKept(s spot, store *redishold.Backend) {
	t := b.t
	t.Helper()
	heard := b.Listen("*")
	if set, err := store.SetCount(bounded(t), s.name, "x", 1); err != nil || !set {
		t.Fatalf("SetCount: got %v and error %v", set, err)
	}
	b.wantKeys(s.lock, s.beside("call")+":x")
	if err := store.CountDown(bounded(t), s.name, "y"); err != nil {
		t.Fatalf("CountDown: %v", err)
	}
	b.wantKeys(s.beside("call")+":x", s.beside("call")+":y")
	var got []redistest.Message
	for _, m := range b.heardBefore(heard) {
		if !strings.Contains(m.Channel, "holdfast-probe") {
			got = append(got, m)
		}
	}
	channel := "redisson_countdownlatch__channel__{" + s.lock + "}"
	if want := []redistest.Message{{Channel: channel, Payload: "1"}, {Channel: channel, Payload: "0"}}; !slices.Equal(got, want) {
		t.Errorf("messages: got %v, want %v", got, want)
	}
}
