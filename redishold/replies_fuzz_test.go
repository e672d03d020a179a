package redishold

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// wildConn is a server, or a proxy before it, that answers whatever the bytes
// say. When they are used up it answers as a healthy one.
type wildConn struct {
	mu   sync.Mutex
	data []byte
	log  []answered
}

// answered is one call and what became of it.
type answered struct {
	call Call
	Result
}

func (c *wildConn) Do(ctx context.Context, calls ...Call) []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make([]Result, 0, len(calls))
	for _, call := range calls {
		r := c.answer(ctx, call)
		c.log = append(c.log, answered{copies([]Call{call})[0], r})
		results = append(results, r)
	}
	if len(c.data) > 0 && c.data[0] == 255 { // a Conn that forgets one
		results = results[:len(results)-1]
		c.log[len(c.log)-1].Err = errors.New("no result")
	}
	return results
}

func (c *wildConn) Server(context.Context) (ServerInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.next() % 8 {
	case 1:
		return ServerInfo{Cluster: true, ShardedPS: true, Version: "7.0.15"}, nil
	case 2:
		return ServerInfo{Version: c.text(), Role: c.text(), EvictionPolicy: c.text(), RunID: c.text()}, nil
	case 3:
		return ServerInfo{}, &ReplyError{Text: c.text()}
	default:
		return ServerInfo{}, nil
	}
}

func (c *wildConn) Subscribe(context.Context, Channel, func(Notice)) (Subscription, error) {
	return nil, &ReplyError{Text: "ERR not here"}
}

// answer makes one answer: right, nearly right, any value, or any error.
func (c *wildConn) answer(ctx context.Context, call Call) Result {
	good := granting(call)
	if extra, ok := kindGood(call); ok {
		good = extra
	}
	switch c.next() % 8 {
	case 1:
		return Result{Value: c.bend(good.Value)}
	case 2:
		var v any
		v, c.data = grow(c.data, 0)
		return Result{Value: v}
	case 3:
		return Result{Err: &ReplyError{Text: c.text()}}
	case 4:
		words := []string{"WRONGTYPE x", "OOM x", "NOPERM x", "MOVED 1 x:1", "TRYAGAIN x", "ERR x", "NOREPLICAS x", "READONLY x", "", "BUSY x"}
		return Result{Err: &ReplyError{Text: words[int(c.next())%len(words)]}}
	case 5:
		kinds := []error{errors.New("reset by peer"), driver.ErrNotExecuted, driver.ErrRefused, driver.ErrGone, driver.ErrMismatch, context.DeadlineExceeded}
		return Result{Err: kinds[int(c.next())%len(kinds)]}
	case 6: // the script ran, and what came with it failed
		return Result{Value: good.Value, Err: &ReplyError{Text: "NOREPLICAS " + c.text()}}
	case 7:
		return Result{Value: good.Value, Err: errors.New("cut")}
	default:
		return good
	}
}

// kindGood is granting for scripts that a fakeConn has no answers for.
func kindGood(call Call) (Result, bool) {
	switch name := call.Script.Name(); {
	case name == "semaphore_count":
		return Result{Value: []any{int64(1), int64(5), int64(3)}}, true
	case name == "count_replicas":
		return Result{Value: int64(2)}, true
	case name == "list_redisson":
		return Result{Value: []any{mutexState(1)}}, true
	case name == "client":
		return unregistered(call), true
	case strings.HasPrefix(name, "latch_"), strings.HasPrefix(name, "permits_"), name == "semaphore_resize":
		return Result{Value: []any{int64(1), int64(0)}}, true
	default:
		return Result{}, false
	}
}

// bend changes one thing of a value.
func (c *wildConn) bend(v any) any {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		v, c.data = grow(c.data, 0)
		return v
	}
	list = append([]any(nil), list...)
	at := int(c.next()) % len(list)
	switch c.next() % 4 {
	case 0:
		return list[:at]
	case 1:
		return append(list, int64(int8(c.next())))
	default:
		list[at], c.data = grow(c.data, 1)
		return list
	}
}

func (c *wildConn) next() byte {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return b
}

func (c *wildConn) text() string {
	n := min(int(c.next()), len(c.data))
	s := string(c.data[:n])
	c.data = c.data[n:]
	return s
}

// since returns the answers to one script from number start on; script is how
// its name ends.
func (c *wildConn) since(start int, script string) (all []answered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.log[start:] {
		for _, one := range a.each() {
			if strings.HasSuffix(one.call.Script.Name(), script) {
				all = append(all, one)
			}
		}
	}
	return all
}

// each returns what a script of several locks answered for each of them, and any
// other answer as it is.
func (a answered) each() (ones []answered) {
	calls := unbundled(a.call)
	list, _ := a.Value.([]any)
	if same, ok := a.Value.(int64); ok {
		list = slices.Repeat([]any{same}, len(calls))
	}
	if !strings.HasSuffix(a.call.Script.Name(), "_all") || a.Err != nil || len(list) != len(calls) {
		return []answered{a}
	}
	for i, call := range calls {
		ones = append(ones, answered{call: call, Result: Result{Value: list[i]}})
	}
	return ones
}

func (c *wildConn) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.log)
}

// numbers reports whether v is a list of size integers that begins with code.
func numbers(v any, size int, code int64) bool {
	list, _ := v.([]any)
	for _, n := range list {
		if _, ok := n.(int64); !ok {
			return false
		}
	}
	return len(list) == size && list[0] == any(code)
}

// FuzzReplies lets a server reply anything to any script: nothing panics, and nothing is
// granted, renewed or released unless the reply is exactly the right one.
func FuzzReplies(f *testing.F) {
	for kind := range uint8(5) {
		f.Add(uint8(0), kind, []byte{})
		f.Add(uint8(0), kind, []byte{0, 0, 1, 1, 2, 3, 9})
		f.Add(uint8(0), kind, []byte{0, 0, 0, 2, 4, 2, 1, 1, 1, 7})
		f.Add(uint8(3), kind, []byte{0, 6, 3, 'a', 'b', 'c', 6, 1, 'x'})
		f.Add(uint8(0), kind, []byte{0, 0, 0, 0, 0, 0, 0, 3, 8, 'N', 'O', 'P', 'E', 'R', 'M', ' ', 'x', 7, 7, 7})
		f.Add(uint8(0), kind, []byte{1, 0, 4, 4, 4, 3, 4, 1, 4, 0, 255, 255})
	}
	f.Add(uint8(1), uint8(0), []byte{0, 0, 0, 0, 7})
	f.Add(uint8(2), uint8(0), []byte{0, 0, 0, 1, 1, 3, 2, 3, 'x'})
	slots := slotTable()
	f.Fuzz(func(t *testing.T, how, kind uint8, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			conn := &wildConn{data: data}
			o := Options{Layout: Layout(how % 3)}
			if how/3%2 == 1 {
				o.Replicas = AllReplicas
			}
			w := &wild{T: t, conn: conn, Backend: slots.newBackend(conn, &o), claim: fuzzClaim(kind, "stock:42")}
			w.claims()
			w.looks()
			w.counters()
			w.core(kind)
		})
	})
}

// wild is a Backend on a wildConn.
type wild struct {
	*testing.T
	*Backend
	conn  *wildConn
	claim driver.Claim
}

// within returns a context that ends soon, by the bubble's clock.
func (w *wild) within() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
	w.Cleanup(cancel)
	return ctx
}

func (w *wild) claims() {
	w.Helper()
	other := w.claim
	other = claimOf(other, testUUID, 2)
	other.Name = "stock:43"
	start := w.conn.seen()
	out, err := w.Try(w.within(), w.claim)
	w.granted("Try", start, out, err)
	start = w.conn.seen()
	for _, a := range w.TryAll(w.within(), []driver.Claim{w.claim, other}) {
		w.granted("TryAll", start, a.Outcome, a.Err)
	}
	start = w.conn.seen()
	renewals, err := w.Renew(w.within(), []driver.Claim{w.claim, other})
	if err == nil && len(renewals) != 2 {
		w.Fatalf("Renew: got %d answers, want 2", len(renewals))
	}
	for i, r := range renewals {
		w.renewed(start, []driver.Claim{w.claim, other}[i], r)
	}
	for _, indeterminate := range []bool{false, true} {
		c := w.claim
		c.Indeterminate = indeterminate
		start = w.conn.seen()
		if err := w.Release(w.within(), c); err == nil {
			w.ended("Release", start, indeterminate)
		}
	}
	start = w.conn.seen()
	for i, err := range w.ReleaseAll(w.within(), []driver.Claim{w.claim, other}) {
		if err == nil {
			w.ended("ReleaseAll "+strconv.Itoa(i), start, false)
		}
	}
}

// renewed fails if r is a renewal without the right reply.
func (w *wild) renewed(start int, c driver.Claim, r driver.Renewal) {
	w.Helper()
	if r.Err != nil {
		return
	}
	for _, a := range w.conn.since(start, "renew") {
		if strings.HasPrefix(a.call.Keys[0], c.Name) || strings.Contains(a.call.Keys[0], "{"+c.Name+"}") {
			if a.Value != any(int64(1)) || a.Err != nil || r.ValidFor != c.TTL {
				w.Errorf("Renew: got %+v from %+v", r, a)
			}
			return
		}
	}
	w.Errorf("Renew: got %+v without an answer", r)
}

// granted fails if out is a grant without the right reply.
func (w *wild) granted(what string, start int, out driver.Outcome, err error) {
	w.Helper()
	if err != nil && out != (driver.Outcome{}) {
		w.Errorf("%s: got %+v beside error %v", what, out, err)
	}
	if !out.Granted {
		readable(w.T, what+": holder", out.Holder)
		return
	}
	for _, a := range w.conn.since(start, "acquire") {
		if a.Err == nil && a.Value == any(int64(out.Token)) && out.Token > 0 && out.Token < 1<<53 {
			return
		}
	}
	w.Errorf("%s: got the grant %+v from %+v", what, out, w.conn.since(start, "acquire"))
}

// ended fails unless a reply since start means that a hold was ended.
func (w *wild) ended(what string, start int, marked bool) {
	w.Helper()
	for _, a := range w.conn.since(start, "") {
		name := a.call.Script.Name()
		if code, ok := a.Value.(int64); a.Err != nil || !ok || code == 0 || strings.HasSuffix(name, "acquire") {
			continue
		}
		if !marked || a.call.Source { // what abandons is sent as source
			return
		}
	}
	w.Errorf("%s: got no error from %+v", what, w.conn.since(start, ""))
}

func (w *wild) looks() {
	w.Helper()
	start := w.conn.seen()
	records, err := w.Get(w.within(), w.claim.Name)
	for _, r := range records {
		for _, h := range r.Holds {
			readable(w.T, "Get", h.Note)
		}
		if err != nil && r.Kind != admin.KindUnknown {
			w.Errorf("Get: got %+v beside error %v, from %+v", r, err, w.conn.since(start, ""))
		}
	}
	start = w.conn.seen()
	h := admin.Holder{Owner: w.claim.Owner, Holds: 1, Remaining: time.Second}
	if err := w.ForceUnlock(w.within(), w.claim.Name, h, "why\x1b"); err == nil {
		w.ended("Break", start, false)
	}
	_, _, _ = w.Incarnation(w.within())
}

func (w *wild) counters() {
	w.Helper()
	const name = "count"
	permits := w.PlainSemaphore(name)
	for _, op := range []struct {
		script string
		code   int64 // of the answer that lets it succeed
		do     func() (bool, error)
	}{
		{"latch_set", 1, func() (bool, error) { return w.SetCount(w.within(), name, "C1", 3) }},
		{"latch_down", 1, func() (bool, error) { err := w.CountDown(w.within(), name, "C2"); return err == nil, err }},
		{"latch_count", 1, func() (bool, error) {
			n, err := w.Count(w.within(), name)
			return err == nil && n == 0, err
		}},
		{"semaphore_resize", 1, func() (bool, error) { err := w.Resize(w.within(), name, 3); return err == nil, err }},
		{"permits_take", 1, func() (bool, error) { return permits.TryAcquire(w.within(), 2) }},
		{"permits_set", 1, func() (bool, error) { return permits.TrySet(w.within(), 2) }},
		{"permits_give", 1, func() (bool, error) { err := permits.Release(w.within(), 2); return err == nil, err }},
	} {
		start := w.conn.seen()
		did, err := op.do()
		if did && err != nil {
			w.Errorf("%s: got true beside error %v", op.script, err)
		}
		if did && !w.answeredYes(start, op.script, op.code) {
			w.Errorf("%s: done, after %+v", op.script, w.conn.since(start, op.script))
		}
	}
	if total, free, err := w.Permits(w.within(), name); err != nil && (total != 0 || free != 0) {
		w.Errorf("Permits: got %d and %d beside error %v", total, free, err)
	}
	_, _ = permits.Drain(w.within())
	_, _ = permits.Available(w.within())
	if err := permits.Settle(context.Background()); err != nil { // limited by the TTL of idempotency keys
		w.Errorf("Settle: got %v", err)
	}
}

// answeredYes reports that a script answered a pair of numbers that begins with
// code.
func (w *wild) answeredYes(start int, script string, code int64) bool {
	for _, a := range w.conn.since(start, script) {
		if a.Err == nil && numbers(a.Value, 2, code) {
			return true
		}
	}
	return false
}

// core takes a lock as a user does, and releases it.
func (w *wild) core(kind uint8) {
	w.Helper()
	locker := holdfast.New(w.Backend, nil)
	m := []*holdfast.Mutex{locker.Mutex("core"), locker.FairMutex("core"), locker.RWMutex("core").Write, locker.RWMutex("core").Read}
	start := w.conn.seen()
	var lock *holdfast.Lock
	var err error
	if kind %= 5; int(kind) < len(m) {
		lock, err = m[kind].TryLock(w.within())
	} else {
		lock, err = locker.Semaphore("core", 3).TryAcquire(w.within())
	}
	if (lock == nil) == (err == nil) {
		w.Fatalf("TryLock: got %v and error %v", lock, err)
	}
	if lock != nil {
		w.granted("TryLock", start, driver.Outcome{Granted: true, Token: lock.Token()}, nil)
		_ = lock.Unlock()
	}
	if err := locker.Drain(context.Background()); err != nil {
		w.Errorf("Drain: got %v", err)
	}
}
