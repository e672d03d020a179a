package redishold

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// acknowledging makes a server with so many replicas, of which acks acknowledge:
// it grants, renews and releases, and answers WAIT as the adapters do.
func acknowledging(replicas, acks int) func(Call) Result {
	return func(c Call) Result {
		r := granting(c)
		if c.Script.Name() == "count_replicas" {
			r.Value = int64(replicas)
		}
		if c.Replicas > acks {
			r.Err = &ReplyError{Text: "NOREPLICAS " + string(rune('0'+acks)) + " of " + string(rune('0'+c.Replicas)) + " replicas acknowledged the write"}
		}
		return r
	}
}

// asked returns what calls of a script asked for.
func asked(conn *fakeConn, script string) (replicas []int) {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	for _, calls := range conn.sent {
		for _, c := range calls {
			for _, one := range unbundled(c) {
				if one.Script.Name() == script {
					replicas = append(replicas, one.Replicas)
				}
			}
		}
	}
	return replicas
}

func TestTooFewReplicasOnAcquire(t *testing.T) {
	conn := &fakeConn{answer: acknowledging(2, 1)}
	b := New(conn, &Options{Replicas: AllReplicas})
	_, err := b.Try(t.Context(), testClaim("orders"))
	wantErrors(t, "too few", err, driver.ErrNotExecuted)
	if !strings.Contains(err.Error(), "1 of 2 replicas") {
		t.Errorf("got %q, want it to tell how many of how many", err)
	}
	if n := conn.count("release"); n != 1 {
		t.Errorf("got %d releases, want 1", n)
	}

	conn.answer = func(c Call) Result {
		if c.Script.Name() == "release" {
			return Result{Err: driver.ErrNotExecuted}
		}
		return acknowledging(2, 1)(c)
	}
	_, err = b.Try(t.Context(), testClaim("orders"))
	wantErrors(t, "too few, and the release has no answer", err)

	conn.answer = func(c Call) Result {
		r := acknowledging(2, 0)(c)
		if c.Script.Name() == "acquire" {
			r.Value = busyReply()
		}
		return r
	}
	before := conn.count("release")
	if o, err := b.Try(t.Context(), testClaim("orders")); err != nil || o.Granted {
		t.Errorf("busy, with too few replicas: got %+v, error %v, want busy", o, err)
	}
	if n := conn.count("release"); n != before {
		t.Error("a claim that was not granted was released")
	}
}

func wantUnreplicated(t *testing.T, r driver.Renewal) {
	t.Helper()
	var gone *driver.GoneError
	if !errors.As(r.Err, &gone) || gone.Reason != driver.ReasonUnreachable || !strings.Contains(gone.Detail, "replica") {
		t.Errorf("Renew: got %v (%+v), want the hold to end for want of replicas", r.Err, gone)
	}
}

func TestTooFewReplicasOnRenewal(t *testing.T) {
	conn := &fakeConn{answer: acknowledging(2, 2)}
	b := New(conn, &Options{Replicas: AllReplicas})
	mustTry(t, b, testClaim("orders"))
	conn.answer = acknowledging(2, 1)
	claims := []driver.Claim{testClaim("orders"), testClaim("bills"), testClaim("stock")}
	r, err := b.Renew(t.Context(), claims)
	if err != nil || len(r) != 3 {
		t.Fatalf("Renew: got %+v, error %v", r, err)
	}
	for i := range r {
		wantUnreplicated(t, r[i])
	}
	if n := conn.count("renew"); n != 1 {
		t.Errorf("got %d renewals, want one that speaks for all", n)
	}
	if n := conn.count("explain"); n != 0 {
		t.Errorf("got %d questions why the lock is gone, want none: it is not", n)
	}

	lost := func(c Call) Result {
		r := acknowledging(2, 1)(c)
		if c.Script.Name() == "renew" {
			r.Value = int64(0)
		}
		return r
	}
	conn.answer = lost
	r, _ = b.Renew(t.Context(), claims[:1])
	var gone *driver.GoneError
	if !errors.As(r[0].Err, &gone) || gone.Reason != driver.ReasonDeleted {
		t.Errorf("a lock that is gone: got %v, want Deleted", r[0].Err)
	}

	conn.answer = failing("renew", "NOREPLICAS Not enough good replicas to write.") // min-replicas-to-write
	r, _ = b.Renew(t.Context(), claims[:1])
	wantErrors(t, "refused by the server", r[0].Err, driver.ErrNotExecuted)
}

func TestServerWithoutWait(t *testing.T) {
	for words, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'wait' command": "+wait",
		"ERR unknown command 'wait'":                                    "does not have that command",
	} {
		conn := &fakeConn{answer: func(c Call) Result {
			r := granting(c)
			if c.Replicas > 0 {
				r.Err = &ReplyError{Text: "NOREPLICAS WAIT failed: " + words}
			}
			return r
		}}
		b := New(conn, &Options{Replicas: 2})
		for range 2 { // a failure is not remembered, nor taken for a pass
			_, err := b.Try(t.Context(), testClaim("orders"))
			wantErrors(t, words, err, driver.ErrRefused, driver.ErrNotExecuted)
			if !strings.Contains(err.Error(), "WAIT") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), words) {
				t.Errorf("got %q, want it to name WAIT, the server's words and %q", err, want)
			}
		}
		if n := conn.count("acquire"); n != 0 {
			t.Errorf("got %d acquires, want none", n)
		}
	}
}

func TestReplicasOfAClusterAreThoseOfEachNode(t *testing.T) {
	nodes := map[string]int64{"one": 1, "two": 2}
	conn := &fakeConn{server: clusterServer, answer: func(c Call) Result {
		if c.Script.Name() == "count_replicas" {
			return Result{Value: nodes[c.Keys[0]]}
		}
		return Result{}
	}}
	b := New(conn, &Options{Replicas: AllReplicas})
	nodes["zero"] = 1
	mustTry(t, b, testClaim("zero"))
	nodes["zero"] = 0
	r, err := b.Renew(t.Context(), []driver.Claim{testClaim("one"), testClaim("zero"), testClaim("two")})
	if err != nil || len(r) != 3 || r[0].Err != nil || r[2].Err != nil {
		t.Fatalf("Renew: got %+v, error %v", r, err)
	}
	wantUnreplicated(t, r[1])
	if got := asked(conn, "renew"); len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Errorf("asked for %v, want 1 and 2", got)
	}
}

func clusterServer(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true}, nil }

// A release asks no replicas, by itself or with others: one that a failover
// forgets is a lease that ends.
func TestReleasesAskNoReplicas(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, &Options{Replicas: 2})
	claims := []driver.Claim{testClaim("a"), testClaim("b")}
	mustTry(t, b, claims[0])
	for i, err := range b.ReleaseAll(t.Context(), claims) {
		if err != nil {
			t.Errorf("release %d: %v", i, err)
		}
	}
	for _, replicas := range append(asked(conn, "release"), asked(conn, "release_all")...) {
		if replicas != 0 {
			t.Errorf("a release asks for %d replicas", replicas)
		}
	}
	if n := len(asked(conn, "release")) + len(asked(conn, "release_all")); n == 0 {
		t.Error("nothing was released")
	}
}
