package redishold

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// several returns claims of n plain locks.
func several(n int) []driver.Claim {
	cs := make([]driver.Claim, n)
	for i := range cs {
		cs[i] = claimOf(testClaim(fmt.Sprint("stock:", i)), testUUID, uint64(i))
	}
	return cs
}

// sizes returns for how many locks the calls of a script were, in order.
func sizes(conn *fakeConn, script string) (all []int) {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	for _, calls := range conn.sent {
		for _, c := range calls {
			if ones := unbundled(c); ones[0].Script.Name() == script {
				all = append(all, len(ones))
			}
		}
	}
	return all
}

func TestWhichClaimsShareACall(t *testing.T) {
	in := func(change func(cs []driver.Claim)) []driver.Claim {
		cs := several(5)
		change(cs)
		return cs
	}
	for name, c := range map[string]struct {
		claims  []driver.Claim
		options *Options
		cluster bool
		want    []int
		release []int // where that is other than want: it has fewer arguments
	}{
		"plain":          {claims: several(5), want: []int{5}},
		"one":            {claims: several(1), want: []int{1}},
		"many":           {claims: several(2*maxBatch + 1), want: []int{maxBatch, maxBatch, 1}},
		"other TTLs":     {claims: in(func(cs []driver.Claim) { cs[1].TTL++; cs[2].TTL++ }), want: []int{1, 2, 2}, release: []int{5}},
		"other holds":    {claims: in(func(cs []driver.Claim) { cs[4].Count = 2 }), want: []int{4, 1}, release: []int{5}},
		"other tokens":   {claims: in(func(cs []driver.Claim) { cs[0].Tokens = 64 }), want: []int{1, 4}, release: []int{5}},
		"other kinds":    {claims: in(func(cs []driver.Claim) { cs[1].Fair = true; cs[3].ReadWrite = true }), want: []int{3}},
		"cluster":        {claims: several(3), cluster: true, want: []int{1, 1, 1}},
		"replicas":       {claims: several(3), options: &Options{Replicas: 1}, want: []int{1, 1, 1}},
		"another layout": {claims: several(3), options: &Options{Layout: Plain}},
	} {
		conn := &fakeConn{server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: c.cluster}, nil }}
		b := New(conn, c.options)
		for i, a := range b.TryAll(t.Context(), c.claims) {
			if a.Err != nil || !a.Outcome.Granted {
				t.Errorf("%s: claim %d: got %+v", name, i, a)
			}
		}
		if got := sizes(conn, "acquire"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: tried %v, want %v", name, got, c.want)
		}
		for i, err := range b.ReleaseAll(t.Context(), c.claims) {
			if err != nil {
				t.Errorf("%s: claim %d: got error %v", name, i, err)
			}
		}
		want := c.want
		if c.release != nil {
			want = c.release
		}
		if got := sizes(conn, "release"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: released %v, want %v", name, got, want)
		}
	}
}

// What is refused of one of several locks is an error of that one.
func TestSeveralFailOneByOne(t *testing.T) {
	conn := &fakeConn{answer: func(c Call) Result {
		switch {
		case c.Keys[0] == "stock:1":
			return Result{Err: &ReplyError{Text: "OOM no room\r\n"}}
		case c.Keys[0] == "stock:2":
			return Result{Value: "nonsense"}
		case c.Keys[0] == "stock:3" && c.Script.Name() == "acquire":
			return Result{Value: busyReply()}
		}
		return Result{}
	}}
	b := New(conn, nil)
	cs := several(5)
	attempts := b.TryAll(t.Context(), cs)
	renewals := mustRenew(t, b, cs...)
	errs := b.ReleaseAll(t.Context(), cs)
	for i := range cs {
		switch i {
		case 1:
			wantErrors(t, "TryAll, refused", attempts[i].Err, driver.ErrRefused, driver.ErrNotExecuted)
			wantErrors(t, "Renew, refused", renewals[i].Err, driver.ErrRefused)
			wantErrors(t, "ReleaseAll, refused", errs[i], driver.ErrRefused)
			if text := errs[i].Error(); strings.ContainsAny(text, "\r\n") {
				t.Errorf("got the error %q, want one line", text)
			}
		case 2:
			wantErrors(t, "TryAll, nonsense", attempts[i].Err)
			wantErrors(t, "Renew, nonsense", renewals[i].Err)
			wantErrors(t, "ReleaseAll, nonsense", errs[i])
		default:
			if granted := i != 3; attempts[i].Err != nil || attempts[i].Outcome.Granted != granted {
				t.Errorf("TryAll, claim %d: got %+v", i, attempts[i])
			}
			if renewals[i].Err != nil || errs[i] != nil {
				t.Errorf("claim %d: Renew: got %v, ReleaseAll: got %v", i, renewals[i].Err, errs[i])
			}
		}
	}
}

// rawConn answers calls for several locks with one value.
type rawConn struct {
	fakeConn
	raw  Result
	runs int
}

func (c *rawConn) Do(ctx context.Context, calls ...Call) []Result {
	if name := calls[0].Script.Name(); name != "acquire_all" && name != "renew_all" && name != "release_all" {
		return c.fakeConn.Do(ctx, calls...)
	}
	c.runs++
	results := make([]Result, len(calls))
	results[0] = c.raw
	return results
}

// A reply with the wrong number of elements is an error for each lock.
func TestSeveralWithoutAnAnswerForEach(t *testing.T) {
	for name, r := range map[string]Result{
		"none":   {Value: []any{}},
		"few":    {Value: []any{int64(1), int64(1)}},
		"many":   {Value: []any{int64(1), int64(1), int64(1), int64(1)}},
		"a text": {Value: "1"},
		"nil":    {},
		"lost":   {Err: errors.New("cut")},
		"both":   {Value: []any{int64(1), int64(1), int64(1)}, Err: errors.New("cut")},
	} {
		conn := &rawConn{raw: r}
		b := New(conn, nil)
		cs := several(3)
		for i, a := range b.TryAll(t.Context(), cs) {
			if a.Outcome.Granted || a.Err == nil {
				t.Errorf("%s: TryAll, claim %d: got %+v", name, i, a)
			}
			wantErrors(t, name, a.Err)
		}
		for i, renewal := range mustRenew(t, b, cs...) {
			if renewal.ValidFor != 0 {
				t.Errorf("%s: Renew, claim %d: got %+v", name, i, renewal)
			}
			wantErrors(t, name, renewal.Err)
		}
		for _, err := range b.ReleaseAll(t.Context(), cs) {
			wantErrors(t, name, err)
		}
		if conn.runs != 3 {
			t.Errorf("%s: %d calls, want that none is repeated", name, conn.runs)
		}
	}
}

// One number is the reply for each lock. It has to be one that the script for one lock may
// reply.
func TestSeveralWithOneReply(t *testing.T) {
	for _, c := range []struct {
		reply         int64
		token         uint64 // 0 if the reply to a try is not valid
		kept, release error  // the errors of a renewal and of a release
	}{
		{reply: 1, token: 1},
		{reply: 1734567890123456, token: 1734567890123456, kept: errors.New("not valid"), release: errors.New("not valid")},
		{reply: 0, kept: driver.ErrGone, release: driver.ErrGone},
		{reply: -3, kept: errors.New("not valid"), release: errors.New("not valid")},
	} {
		b := New(&rawConn{raw: Result{Value: c.reply}}, nil)
		cs := several(3)
		for i, a := range b.TryAll(t.Context(), cs) {
			if valid := c.token != 0; a.Outcome.Token != c.token || a.Outcome.Granted != valid || (a.Err == nil) != valid {
				t.Errorf("%d: TryAll, claim %d: got %+v", c.reply, i, a)
			}
		}
		renewals, errs := mustRenew(t, b, cs...), b.ReleaseAll(t.Context(), cs)
		for i := range cs {
			for _, got := range []struct{ err, want error }{{renewals[i].Err, c.kept}, {errs[i], c.release}} {
				if (got.err == nil) != (got.want == nil) || errors.Is(got.err, driver.ErrGone) != errors.Is(got.want, driver.ErrGone) {
					t.Errorf("%d: claim %d: got error %v, want %v", c.reply, i, got.err, got.want)
				}
			}
		}
	}
}

// lateConn is a Conn that still reads the calls of a TryAll after it has returned without a
// reply.
type lateConn struct {
	fakeConn
	calls []Call
}

func (c *lateConn) Do(ctx context.Context, calls ...Call) []Result {
	if c.calls == nil && calls[0].Script.Name() == "acquire_all" {
		c.calls = calls
		return []Result{{Err: ctx.Err()}, {Err: errors.New("cut")}}
	}
	return c.fakeConn.Do(ctx, calls...)
}

// The memory of calls without a reply is not used again.
func TestSeveralStayAsTheyWereSent(t *testing.T) {
	conn := &lateConn{}
	b := New(conn, nil)
	b.TryAll(t.Context(), several(3))
	sent := copies(conn.calls)
	other := several(3)
	for i := range other {
		other[i].Name = fmt.Sprint("room:", i)
	}
	b.TryAll(t.Context(), other)
	if !reflect.DeepEqual(conn.calls, sent) {
		t.Errorf("got %q, want %q", conn.calls[0].Keys, sent[0].Keys)
	}
}

// A server refuses a call as a whole for one key that the user must not use. Then
// nothing of it was executed, and the others are asked for one by one.
func TestSeveralOfWhichOneKeyIsForbidden(t *testing.T) {
	noKey := Result{Err: &ReplyError{Text: "NOPERM this user has no permissions to access one of the keys used as arguments"}}
	conn := &rawConn{raw: noKey}
	conn.answer = func(c Call) Result {
		if c.Keys[0] == "stock:1" {
			return noKey
		}
		return Result{}
	}
	b := New(conn, nil)
	cs := several(3)
	for i, a := range b.TryAll(t.Context(), cs) {
		if i == 1 {
			wantErrors(t, "TryAll", a.Err, driver.ErrRefused, driver.ErrNotExecuted)
		} else if !a.Outcome.Granted {
			t.Errorf("TryAll, claim %d: got %+v", i, a)
		}
	}
	conn.raw.Err = &ReplyError{Text: "NOPERM this user has no permissions to run the 'evalsha' command"}
	before := len(conn.scripts())
	for _, r := range mustRenew(t, b, cs...) {
		wantErrors(t, "Renew", r.Err, driver.ErrRefused, driver.ErrNotExecuted)
	}
	if again := conn.scripts()[before:]; len(again) > 0 {
		t.Errorf("asked %q again: that would not help", again)
	}
}

// A try whose grant must be published for others has a call of its own.
func TestPublishingTryIsACallOfItsOwn(t *testing.T) {
	conn := &fakeConn{answer: func(c Call) Result {
		if c.Script.Name() == "acquire" && c.Args[0] == testUUID+":99" {
			return Result{Value: busyReply()}
		}
		return Result{}
	}}
	b := New(conn, nil)
	waiting := claimOf(testClaim("stock:1"), testUUID, 99)
	w := b.Waiter(waiting)
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := w.Wait(ctx, mustTry(t, b, waiting)); err != nil {
		t.Fatal(err)
	}
	if err := b.Drain(t.Context()); err != nil { // the name of the holder is looked up in the background
		t.Fatal(err)
	}
	before := len(sizes(conn, "acquire"))
	b.TryAll(t.Context(), several(4))
	if got, want := sizes(conn, "acquire")[before:], []int{3, 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("tried %v, want %v", got, want)
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	calls := conn.sent[len(conn.sent)-1]
	if last := calls[1]; last.Keys[0] != "stock:1" || len(last.Args) != 6 {
		t.Errorf("got %q %q, want the channel and the command", last.Keys, last.Args)
	}
}
