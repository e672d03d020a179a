package scripttest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// A script reads and writes only keys that its caller names in KEYS. Some servers refuse any
// other key. MONITOR shows each call of a script and the commands inside it, and the server
// itself says which keys a command has.

// TestScriptsTouchOnlyTheirKeys uses every kind of lock in every way, and every script.
func TestScriptsTouchOnlyTheirKeys(t *testing.T) {
	d := &declared{names: map[string]string{}, seen: map[string]bool{}}
	for _, name := range redistest.ScriptNames(t) {
		d.names[redistest.ScriptSHA(t, name)], d.names[redistest.ScriptSource(t, name)] = name, name
	}
	t.Run("one server", func(t *testing.T) {
		server := redistest.Start(t)
		d.check(t, server.Admin, func() { useAll(t, connect(t, server.Addr(), "", "")) })
	})
	t.Run("a cluster", func(t *testing.T) {
		server := startCluster(t)
		d.check(t, server.Admin, func() { useAll(t, connect(t, server.Addr(), "", "")) })
	})
	t.Run("replicas", func(t *testing.T) {
		server := redistest.Start(t)
		b := redishold.New(connect(t, server.Addr(), "", ""), &redishold.Options{Replicas: redishold.AllReplicas})
		d.check(t, server.Admin, func() {
			if _, err := b.Try(bounded(t), claim("orders", "1")); err == nil {
				t.Error("granted without replicas")
			}
		})
	})
	for _, k := range kinds() {
		t.Run("scripts of the kind "+k.name, func(t *testing.T) {
			b := newBench(t)
			d.check(t, b.Admin, func() { runKind(b, k) })
		})
	}
	t.Run("scripts of readers", func(t *testing.T) {
		b := newBench(t)
		d.check(t, b.Admin, func() { runReaders(b) })
	})
	t.Run("scripts of a queue", func(t *testing.T) {
		b := newBench(t)
		d.check(t, b.Admin, func() { runQueue(b) })
	})
	t.Run("scripts after a lost reply", func(t *testing.T) {
		b := newBench(t)
		d.check(t, b.Admin, func() {
			b.run("permits_set", plainKeys, 2, 60000, jobsChannel, "PUBLISH")
			b.run("permits_take", plainKeys[:2], 2, 60000, "1")
			b.run("permits_undo", plainKeys, 2, 60000, jobsChannel, "PUBLISH")
		})
	})
	if t.Failed() {
		return
	}
	if d.seen[""] {
		t.Error("the server ran a script of no file")
	}
	for _, name := range redistest.ScriptNames(t) {
		if !d.seen[name] {
			t.Errorf("the server never ran %s", name)
		}
	}
}

// declared checks that scripts touch only their keys.
type declared struct {
	names map[string]string // the name of each script, by its text and by its digest
	seen  map[string]bool   // the names of the scripts that were run; "" for a script of no file
}

// check calls use, and checks each script that the server runs meanwhile.
func (d *declared) check(t *testing.T, server redistest.Admin, use func()) {
	t.Helper()
	all := server.Record(use)
	for _, e := range all {
		if name := strings.ToUpper(e.Args[0]); !e.Inside && (name == "EVAL" || name == "EVALSHA") {
			d.seen[d.names[e.Args[1]]] = true
		}
	}
	for _, text := range server.Undeclared(all) {
		t.Error(text)
	}
}

// useAll uses every kind of lock and of counter through the library, in every layout, and all
// that operators do.
func useAll(t *testing.T, conn redishold.Conn) {
	t.Helper()
	for _, c := range []struct {
		opts  redishold.Options
		kinds []string
	}{
		{redishold.Options{}, []string{"mutex", "fair", "write", "read", "permit"}},
		{redishold.Options{SharedTokens: true, KeyPrefix: "app:"}, []string{"mutex", "read"}},
		{redishold.Options{Layout: redishold.Plain}, []string{"mutex"}},
		{redishold.Options{Layout: redishold.Timestamp}, []string{"mutex"}},
	} {
		b := redishold.New(conn, &c.opts)
		for _, kind := range c.kinds {
			name := kind + c.opts.Layout.String()
			useByTwo(t, b, kind, name)
			useForced(t, b, kind, name+":forced")
			useSeveral(t, b, kind, name+":several")
		}
		useAdmin(t, b)
		if err := b.Drain(bounded(t)); err != nil { // look-ups in the background
			t.Errorf("Drain: %v", err)
		}
	}
	b := redishold.New(conn, nil)
	useReaders(t, b)
	useCounters(t, b, jobs)
	useMoreCounters(t, b)
}

// useForced has a holder, somebody who does not wait for it, and a force unlock.
func useForced(t *testing.T, b *redishold.Backend, kind, name string) {
	t.Helper()
	mustGrant(t, b, kindClaim(kind, name, "11"))
	once := kindClaim(kind, name, "12")
	if once.NoQueue = true; kind == "read" {
		once = kindClaim("write", name, "12")
	}
	mustRefuse(t, b, once)
	for _, h := range mustLook(t, b, name) {
		mustForce(t, b, name, h, "a test")
		if _, err := b.ForceReasons(bounded(t), []admin.Ended{{Name: name, Owner: h.Owner}}); err != nil {
			t.Errorf("%s: ForceReasons: %v", name, err)
		}
	}
	kept := kindClaim(kind, name, "13")
	if kind == "mutex" && b.Info().Caps.AtLeast {
		kept.AtLeast = time.Minute
	}
	mustGrant(t, b, kept)
	if err := b.Wake(bounded(t), kept); err != nil {
		t.Errorf("%s: Wake: %v", name, err)
	}
	mustRelease(t, b, kept)
}

// useSeveral has several locks in one call.
func useSeveral(t *testing.T, b *redishold.Backend, kind, name string) {
	t.Helper()
	var cs []driver.Claim
	for i := range 3 {
		cs = append(cs, kindClaim(kind, fmt.Sprint(name, i), fmt.Sprint(20+i)))
	}
	for _, a := range b.TryAll(bounded(t), cs) {
		if a.Err != nil || !a.Outcome.Granted {
			t.Errorf("%s: TryAll: got %+v", name, a)
		}
	}
	var others []driver.Claim
	for i := range cs {
		others = append(others, kindClaim(kind, cs[i].Name, fmt.Sprint(30+i)))
		if kind == "read" {
			others[i] = kindClaim("write", cs[i].Name, fmt.Sprint(30+i))
		}
	}
	for _, a := range b.TryAll(bounded(t), others) {
		if a.Err != nil || a.Outcome.Granted {
			t.Errorf("%s: TryAll of others: got %+v", name, a)
		}
	}
	if answers, err := b.Renew(bounded(t), cs); err != nil || answers[0].Err != nil {
		t.Errorf("%s: Renew: got %+v and error %v", name, answers, err)
	}
	for i, err := range b.ReleaseAll(bounded(t), cs) {
		if err != nil {
			t.Errorf("%s: ReleaseAll %d: %v", name, i, err)
		}
	}
	for i := range others {
		others[i].Indeterminate = true // a place in a queue, too
		if err := b.Release(bounded(t), others[i]); err != nil && !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s: Release of the others: %v", name, err)
		}
	}
}

// useReaders has readers that come and go, and one whose lease has ended.
func useReaders(t *testing.T, b *redishold.Backend) {
	t.Helper()
	const name = "shelf"
	brief := kindClaim("read", name, "40")
	brief.TTL = 50 * time.Millisecond
	mustGrant(t, b, brief)
	rs := []driver.Claim{kindClaim("read", name, "41"), kindClaim("read", name, "42"), kindClaim("read", name, "43")}
	for _, r := range rs {
		mustGrant(t, b, r)
	}
	w := kindClaim("write", name, "44")
	mustRefuse(t, b, w)
	mustRelease(t, b, rs[0])
	b.ReleaseAll(bounded(t), rs[1:])
	mustTry(t, b, w)
	mustTry(t, b, kindClaim("read", name, "45"))
	describeAll(t, b)
}

// useAdmin has reports, the event log and lists.
func useAdmin(t *testing.T, b *redishold.Backend) {
	t.Helper()
	c := claim("reported", "50")
	mustGrant(t, b, c)
	r := driver.Report{
		Client: c.Client, Note: c.Note, TTL: c.TTL,
		Holds: []driver.ReportedHold{{Name: c.Name, Owner: c.Owner, HeldFor: time.Minute}},
		Waits: []driver.ReportedWait{{Name: c.Name, Waited: time.Minute, Count: 1}},
	}
	for range 2 {
		if err := b.Report(bounded(t), r); err != nil {
			t.Errorf("Report: %v", err)
		}
		r.Waits = nil
	}
	if err := b.AppendLog(bounded(t), admin.Client{ID: c.Client}, []admin.Entry{{Type: admin.EntryAcquired, Name: c.Name}}); err != nil {
		t.Errorf("AppendLog: %v", err)
	}
	if _, err := b.ReadLog(bounded(t), admin.LogFilter{Last: time.Hour, Limit: 10}); err != nil {
		t.Errorf("ReadLog: %v", err)
	}
	describeAll(t, b)
	mustRelease(t, b, c)
}

// describeAll lists all locks and counters, and shows the keys of each.
func describeAll(t *testing.T, b *redishold.Backend) {
	t.Helper()
	for r, err := range b.List(bounded(t), admin.Filter{Counters: true}) {
		if err != nil {
			t.Errorf("List: %v", err)
			continue
		}
		if _, err := b.Describe(bounded(t), r.Name); err != nil {
			t.Errorf("Describe %s: %v", r.Name, err)
		}
	}
}

// useMoreCounters does what useCounters leaves out.
func useMoreCounters(t *testing.T, b *redishold.Backend) {
	t.Helper()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := b.PlainSemaphore("plain")
	_, err := s.TrySet(bounded(t), 3)
	must("TrySet", err)
	must("Add", s.Add(bounded(t), 1))
	_, err = s.Drain(bounded(t))
	must("Drain", err)
	_, err = s.Available(bounded(t))
	must("Available", err)
	c := kindClaim("permit", "sized", "60")
	mustGrant(t, b, c)
	must("Resize", b.Resize(bounded(t), c.Name, 3))
	_, _, err = b.Permits(bounded(t), c.Name)
	must("Permits", err)
}

// runKind runs the scripts of a kind of lock: of a free lock, of one's own, and of another's.
func runKind(b *bench, k kind) {
	other := k
	if k.rival != "" {
		other = kindOf(b.t, k.rival)
	}
	b.call(k.acquire("a:1", 20000, 1))
	b.call(k.acquire("a:1", 60000, 2))
	b.call(other.acquire("b:1", 20000, 1))
	b.call(k.renew("a:1", 60000, 2))
	b.call(k.renew("c:1", 60000, 2))
	if k.force != nil {
		b.call(k.force("a:1", 2))
		b.call(k.acquire("a:1", 20000, 1)) // its tombstone
	}
	b.call(k.acquire("c:1", 20000, 1))
	b.call(k.release("c:1"))
	b.call(k.release("c:1"))
	b.call(k.acquire("d:1", 20000, 1))
	b.call(k.abandon("d:1"))
}

// runReaders has readers of both libraries, live and dead, beside writers.
func runReaders(b *bench) {
	b.javaRead("j:1", 0, 15000, 0)
	b.javaRead("j:2", 0, 0)
	b.read("a:1", 20000, 1)
	b.read("a:2", 60000, 2)
	b.tryWrite("w:1", 20000, 1)
	b.run("rw_write_acquire", rwKeys("w:1"), "w:1", 20000, 1, 1, rwPrefix, "") // readers have come since
	b.die("a:2")
	b.leave("a:1")
	b.breakRW("j:1", 3)
	b.write("w:1", 60000, 1)
	b.tryRead("w:2", 20000, 1, "w:1:write")
	b.leave("w:1:write")
	b.leave("w:2")
	b.run("rw_trim", []string{lockKey}, rwPrefix, rwChannel, "PUBLISH") // of a free lock
}

// runQueue has waiters of both libraries, some of them dead, before a fair lock.
func runQueue(b *bench) {
	b.fairGrant("a:1")
	b.fairBusy("a:2", "a:3")
	b.Int("RPUSH", queueKey, "j:1", "j:2") // without deadlines
	b.fairBusy("a:4")
	b.fairRelease("a:1") // to a:2
	b.Int("ZREM", aliveKey, "a:3")
	b.Int("ZADD", deadlineKey, "1", "a:3", "1", "j:1")
	b.fairBusy("a:4")
	b.fairRelease("a:2") // past the dead ones, to j:2
	b.fairBusy("a:4")    // which gets a deadline
	b.Int("ZADD", deadlineKey, "1", "j:2")
	b.Int("RPUSH", queueKey, "j:3")
	b.fairGrant("a:4")
	b.run("fair_wake", []string{queueKey}, channel+":", "PUBLISH")
}
