package redishold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

func ints(n int) int64 { return int64(n) }

// mutexState is the element of a reply of list_redisson.lua for a mutex of testUUID.
func mutexState(thread int) []any {
	fields := []any{fmt.Sprintf("%s:%d", testUUID, thread), "1"}
	return []any{"hash", ints(30_000), fields, ints(1), []any{ints(0)}, ints(0), ints(-1)}
}

// listCall returns the call with which b reads a lock.
func listCall(b *Backend, k layout.Keys) Call {
	conn, was := &fakeConn{}, b.conn
	b.conn = conn
	defer func() { b.conn = was }()
	_, _ = b.Get(context.Background(), k.Name)
	return conn.sent[0][0]
}

// holdersOf returns the holders of name, as Get returns them.
func holdersOf(ctx context.Context, b *Backend, name string) (holders []admin.Holder, err error) {
	records, err := b.Get(ctx, name)
	for _, r := range records {
		for _, h := range r.Holds {
			holders = append(holders, h.Holder)
		}
	}
	return holders, err
}

// answering answers scripts by their names, and others by default.
func answering(answers map[string]func(Call) Result) func(Call) Result {
	return func(c Call) Result {
		if answer, ok := answers[c.Script.Name()]; ok {
			return answer(c)
		}
		return Result{}
	}
}

// listAll is a reply of list_redisson.lua with a mutex for each name of the call.
func listAll(c Call) Result {
	var records []any
	for i := range len(c.Keys) / 5 {
		records = append(records, mutexState(i))
	}
	return Result{Value: records}
}

func unregistered(c Call) Result {
	return Result{Value: append(slices.Repeat([]any{""}, len(c.Keys)), "1763768514123")}
}

func TestListRefusesInvalidReplies(t *testing.T) {
	for _, value := range []any{
		nil, int64(1),
		[]any{},
		[]any{nil},
		[]any{[]any{}},
		[]any{[]any{"what"}},
		[]any{[]any{int64(1)}},
		[]any{mutexState(1), mutexState(2)},
		[]any{append(mutexState(1), "more")},
		[]any{mutexState(1)[:5]},
		[]any{[]any{"hash", "x", []any{}, ints(0), []any{ints(0)}, ints(0), ints(0)}},
		[]any{[]any{"hash", ints(1), []any{testUUID + ":1"}, ints(1), []any{ints(0)}, ints(0), ints(0)}},
		[]any{[]any{"hash", ints(1), []any{testUUID + ":1", ints(1)}, ints(1), []any{ints(0)}, ints(0), ints(0)}},
		[]any{[]any{"hash", ints(1), []any{testUUID + ":1", "1"}, ints(1), []any{}, ints(0), ints(0)}},
		[]any{[]any{"number", ints(1), "5", ints(1), ints(0), []any{"id"}, ints(0), ints(0)}},
	} {
		conn := &fakeConn{answer: replying("list_redisson", value)}
		records, err := New(conn, nil).Get(t.Context(), "orders")
		if err == nil || len(records) != 1 || records[0].Kind != admin.KindUnknown || records[0].Name != "orders" {
			t.Errorf("%v: got %+v and error %v, want a complaint", value, records, err)
		}
	}
}

// What is no lock is distinguished by its layout.
func TestLookTellsKinds(t *testing.T) {
	owner := testUUID + ":1"
	hash := func(fields ...any) []any {
		return []any{"hash", ints(9), fields, ints(len(fields) / 2), []any{ints(0)}, ints(0), ints(-1)}
	}
	for want, values := range map[admin.Kind][][]any{
		admin.KindMutex: {hash(owner, "1"), hash(owner+":"+testUUID, "1")},
		admin.KindFair:  {{"free", ints(-2), []any{}, ints(0), []any{ints(1), owner, ints(5)}, ints(0), ints(-1)}},
		admin.KindMulti: {hash("value", owner, "value:"+owner+":lock_count", "1")},
		admin.KindOther: {
			hash("x-y", "1"), hash(owner, "one"), hash(owner, "1", "x-y", "1"),
			{"other", ints(-1), ints(-1)},
			{"readers", ints(9), []any{"x", "1", ints(5)}, ints(1), ints(0), ints(-1)},
			{"number", ints(9), "12-", ints(0), ints(0), []any{}, ints(0), ints(0)},
		},
		admin.KindSemaphore: {
			{"number", ints(-1), "3", ints(1), ints(0), []any{"id", ints(5)}, ints(0), ints(0)},
			{"number", ints(-1), "3", ints(0), ints(2), []any{}, ints(0), ints(0)},
			{"number", ints(-2), "", ints(1), ints(0), []any{"id", ints(5)}, ints(0), ints(0)},
		},
		admin.KindCounter: {{"number", ints(-1), "3", ints(0), ints(0), []any{}, ints(0), ints(0)}},
		admin.KindLatch:   {{"number", ints(-1), "3", ints(0), ints(0), []any{}, ints(0), ints(2)}},
		"":                {{"free", ints(-2), []any{}, ints(0), []any{ints(0)}, ints(0), ints(-1)}},
	} {
		for _, value := range values {
			conn := &fakeConn{answer: answering(map[string]func(Call) Result{
				"list_redisson": func(Call) Result { return Result{Value: []any{value}} }, "client": unregistered,
			})}
			records, err := New(conn, nil).Get(t.Context(), "orders")
			if err != nil || records[0].Kind != want {
				t.Errorf("%v: got %+v and error %v, want %q", value, records, err, want)
			}
		}
	}
}

// In a cluster each name is a call of its own, and the trouble of one does not
// hide the others.
func TestLookInACluster(t *testing.T) {
	conn := &fakeConn{
		server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true, ShardedPS: true}, nil },
		answer: answering(map[string]func(Call) Result{
			"list_redisson": func(c Call) Result {
				if c.Keys[0] == "b" {
					return Result{Err: &ReplyError{Text: "CLUSTERDOWN no"}}
				}
				if c.Args[1] != "SHARDNUMSUB" {
					return Result{Err: errors.New("counts " + c.Args[1])}
				}
				return listAll(c)
			}, "client": unregistered,
		}),
	}
	records, err := New(conn, nil).Get(t.Context(), "a", "b", "c")
	wantErrors(t, "Look", err, driver.ErrNotExecuted)
	var kinds []admin.Kind
	for _, r := range records {
		kinds = append(kinds, r.Kind)
	}
	if want := []admin.Kind{admin.KindMutex, admin.KindUnknown, admin.KindMutex}; !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
}

// Registrations are read once in a while, not with every list.
func TestListRemembersClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{answer: answering(map[string]func(Call) Result{
			"list_redisson": listAll,
			"client": func(Call) Result {
				return Result{Value: []any{`{"note":"","host":"h\u001b[1m","pid":7,"program":"p","started":"2026-11-21T20:00:00Z"}`, "1763768514123"}}
			},
		})}
		b := New(conn, nil)
		for range 3 {
			records, err := b.Get(t.Context(), "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			want := admin.Client{ID: testUUID, Library: "holdfast", Program: "p", Host: "h[1m", PID: 7, Started: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)}
			if h := records[1].Holds[0]; h.Client != want || h.Note != "p@h[1m:7" {
				t.Fatalf("got %+v of %q, want %+v", h.Client, h.Note, want)
			}
		}
		if got := conn.count("client"); got != 1 {
			t.Errorf("asked for clients %d times, want once", got)
		}
		time.Sleep(knownFor)
		conn.answer = answering(map[string]func(Call) Result{"list_redisson": listAll, "client": unregistered})
		for range 2 {
			if _, err := b.Get(t.Context(), "a"); err != nil || conn.count("client") != 2 {
				t.Errorf("after %v asked %d times and got error %v, want twice", knownFor, conn.count("client"), err)
			}
		}
		time.Sleep(unknownFor)
		if _, err := b.Get(t.Context(), "a"); err != nil || conn.count("client") != 3 {
			t.Errorf("after %v asked %d times, want three times", unknownFor, conn.count("client"))
		}
	})
}

// pages answers SCANs of hashes with n pages of one name each, of two masters.
func pages(n int) map[string]func(Call) Result {
	return map[string]func(Call) Result{
		"list_masters": func(Call) Result { return Result{Value: []any{"m1", ints(0), "m2", ints(9000)}} },
		"list_scan": func(c Call) Result {
			page := 0
			_, _ = fmt.Sscan(c.Args[0], &page)
			if c.Args[2] != "hash" || page == n-1 {
				return Result{Value: []any{"0", []any{}, ints(-1)}}
			}
			return Result{Value: []any{fmt.Sprint(page + 1), []any{fmt.Sprintf("%s%d", c.Keys[0], page), "a}b{", "redisson_lock_queue:{x}"}, ints(-1)}}
		},
		"list_redisson": listAll, "client": unregistered,
	}
}

// Every master of a cluster is walked, and one that fails does not hide another.
func TestListWalksEveryMaster(t *testing.T) {
	answers := pages(4)
	conn := &fakeConn{
		server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true}, nil },
		answer: answering(answers),
	}
	b := New(conn, nil)
	n := 0
	for r, err := range b.List(t.Context(), admin.Filter{}) {
		if err != nil || !strings.HasPrefix(r.Name, "holdfast:list:{") {
			t.Errorf("got %+v, %v", r, err)
		}
		n++
	}
	if n != 0 {
		t.Errorf("got %d, want none: Holdfast's own keys are no locks", n)
	}

	scan := answers["list_scan"]
	answers["list_scan"] = func(c Call) Result {
		r := scan(c)
		if list, ok := r.Value.([]any); ok && len(list[1].([]any)) > 0 {
			list[1].([]any)[0] = fmt.Sprintf("lock%d:%s", layout.SlotOf(c.Keys[0]), c.Args[0])
		}
		if layout.SlotOf(c.Keys[0]) == 0 && c.Args[0] == "2" {
			return Result{Err: &ReplyError{Text: "LOADING no"}}
		}
		return r
	}
	var names []string
	var last error
	for r, err := range b.List(t.Context(), admin.Filter{}) {
		if last = err; err == nil {
			names = append(names, r.Name)
		}
	}
	wantErrors(t, "List", last, driver.ErrNotExecuted)
	slices.Sort(names)
	if want := []string{"lock0:0", "lock0:1", "lock9000:0", "lock9000:1", "lock9000:2"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// A name that the reader skips is listed without its state, and only once. The reader learns
// how far the list is.
func TestListSkips(t *testing.T) {
	var read []string
	conn := &fakeConn{answer: answering(map[string]func(Call) Result{
		"list_scan": func(c Call) Result {
			keys := map[string][]any{
				"hash0": {"a", "b", "a"}, "hash1": {"b", "c"}, "zset0": {"{a}:timeout", "{d}:timeout"},
			}[c.Args[2]+c.Args[0]]
			next := "0"
			if c.Args[2]+c.Args[0] == "hash0" {
				next = "1"
			}
			all := ints(-1)
			if c.Args[4] == "1" {
				all = ints(300)
			}
			return Result{Value: []any{next, append([]any{}, keys...), all}}
		},
		"list_redisson": func(c Call) Result {
			for i := 0; i < len(c.Keys); i += 5 {
				read = append(read, c.Keys[i])
			}
			return listAll(c)
		},
		"client": unregistered,
	})}
	var skipped, listed, progress []string
	f := admin.Filter{
		Skip: func(name string) bool {
			skipped = append(skipped, name)
			return name != "c"
		},
		Progress: func(keys, all int) { progress = append(progress, fmt.Sprint(keys, "/", all)) },
	}
	for r, err := range New(conn, nil).List(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, fmt.Sprint(r.Name, " ", r.Kind))
	}
	for _, c := range []struct{ what, got, want string }{
		{"asked", strings.Join(skipped, " "), "a b {a} {d} d c"},
		{"read", strings.Join(read, " "), "c"},
		{"listed", strings.Join(listed, " "), "a unknown b unknown {a} unknown {d} unknown d unknown c mutex"},
		{"progress", strings.Join(progress, " "), "100/300 200/300 300/300"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
}

// The reader may stop at any time, and a budget ends the walk with an error.
func TestListEnds(t *testing.T) {
	answers := pages(1000)
	answers["list_scan"] = func(c Call) Result {
		var cursor int
		_, _ = fmt.Sscan(c.Args[0], &cursor)
		return Result{Value: []any{fmt.Sprint(cursor + 1), []any{c.Args[2] + ":" + c.Args[0]}, ints(-1)}} // without end
	}
	for what, c := range map[string]struct {
		limits admin.Filter
		within time.Duration
		err    error
	}{
		"keys":    {admin.Filter{Keys: 1000}, time.Hour, admin.ErrIncomplete},
		"context": {admin.Filter{Pace: 100}, 10 * time.Second, context.DeadlineExceeded},
		"stopped": {admin.Filter{}, time.Hour, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &fakeConn{answer: answering(answers)}
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				var last error
				n := 0
				for _, err := range New(conn, nil).List(ctx, c.limits) {
					if last = err; err == nil {
						n++
					}
					if what == "stopped" && n == 7 {
						break
					}
				}
				if !errors.Is(last, c.err) || n == 0 {
					t.Errorf("got %d, ended by %v, want %v", n, last, c.err)
				}
				scans := conn.count("list_scan")
				if what == "keys" && scans != 5 {
					t.Errorf("scanned %d times, want 5 of 200 keys", scans)
				}
				if what == "context" && (scans < 50 || scans > 300) {
					t.Errorf("scanned %d times in 10 s at a pace of 100 commands", scans)
				}
			})
		})
	}
}

func TestListRefusesAnswersThatCannotBe(t *testing.T) {
	for _, value := range []any{nil, []any{}, []any{"0"}, []any{"", []any{}, ints(0)}, []any{int64(0), []any{}, ints(0)}, []any{"0", "x", ints(0)}, []any{"0", []any{int64(1)}, ints(0)}, []any{"0", []any{}, "x"}} {
		conn := &fakeConn{answer: replying("list_scan", value)}
		n := 0
		for _, err := range New(conn, nil).List(t.Context(), admin.Filter{}) {
			if err == nil || err.Error() == "" {
				t.Errorf("%v: got no error", value)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%v: got %d pairs, want the error alone", value, n)
		}
	}
}

// Notify learns of its own client only, and ends with its context.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		b := New(conn, &Options{KeyPrefix: "app:"})
		ctx, cancel := context.WithCancel(t.Context())
		var heard []uint64
		done := make(chan error, 1)
		go func() { done <- b.Notify(ctx, testUUID, func(seq uint64) { heard = append(heard, seq) }) }()
		synctest.Wait()
		sub := conn.subscriptions()[0]
		if want := (Channel{Name: "app:holdfast:client:" + testUUID}); sub.channel != want {
			t.Errorf("got %+v, want %+v", sub.channel, want)
		}
		sub.notify(Notice{Subscribed: true})
		for _, payload := range []string{":5", ":6.a1", ":", ":0", ":x", ".7", "0:8", ":-9"} { // but for two no owners of the client's
			sub.notify(Notice{Payload: testUUID + payload})
		}
		sub.notify(Notice{Payload: "10"})
		cancel()
		wantErrors(t, "Notify", <-done, context.Canceled)
		if want := []uint64{5, 6}; !slices.Equal(heard, want) || sub.closes() != 1 {
			t.Errorf("heard %d and closed %d times, want %d and once", heard, sub.closes(), want)
		}
		wantErrors(t, "Notify of one who polls", New(conn, &Options{Poll: time.Second}).Notify(t.Context(), testUUID, nil), errors.ErrUnsupported)
	})
}

// A tombstone reports force only where Break left it, and the trouble of some does not
// hide the others.
func TestForced(t *testing.T) {
	ended := []admin.Ended{{Name: "a", Owner: testUUID + ":1"}, {Name: "b", Owner: testUUID + ":2:write"}, {Name: "c", Owner: testUUID + ":3"}}
	marks := map[string]string{
		"holdfast:gone:{a}:" + testUUID + ":1": "forced: stuck (me@host)",
		"holdfast:gone:{b}:" + testUUID + ":2": "forced: ",
		"holdfast:gone:{c}:" + testUUID + ":3": "abandoned",
	}
	conn := &fakeConn{answer: answering(map[string]func(Call) Result{"list_tombstones": func(c Call) Result {
		var found []any
		for _, key := range c.Keys {
			mark, ok := marks[key]
			if !ok {
				t.Errorf("asked for %q", key)
			}
			found = append(found, mark)
		}
		return Result{Value: found}
	}})}
	why, err := New(conn, nil).ForceReasons(t.Context(), ended)
	if want := []string{"stuck (me@host)", "", ""}; err != nil || !slices.Equal(why, want) || conn.count("list_tombstones") != 1 {
		t.Errorf("got %q and error %v with %d calls, want %q", why, err, conn.count("list_tombstones"), want)
	}
	conn.server = func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true}, nil }
	answer := conn.answer
	conn.answer = func(c Call) Result {
		if c.Script.Name() == "list_tombstones" && strings.Contains(c.Keys[0], "{b}") {
			return Result{Err: &ReplyError{Text: "CLUSTERDOWN no"}}
		}
		return answer(c)
	}
	why, err = New(conn, nil).ForceReasons(t.Context(), ended)
	if wantErrors(t, "Forced", err, driver.ErrNotExecuted); why[0] != "stuck (me@host)" || len(why) != 3 {
		t.Errorf("got %q, want the first", why)
	}
	for _, value := range []any{nil, int64(1), []any{"forced: x"}, []any{"", int64(1), ""}} {
		why, err := New(&fakeConn{answer: replying("list_tombstones", value)}, nil).ForceReasons(t.Context(), ended)
		if err == nil || !slices.Equal(why, []string{"", "", ""}) {
			t.Errorf("%v: got %q and error %v, want a complaint", value, why, err)
		}
	}
}

// A reader without the prefix of a program sees its locks under their whole names,
// and their holders all the same.
func TestLookMeetsClientsBehindAPrefix(t *testing.T) {
	const registered = `{"host":"h","pid":7,"program":"p"}`
	for _, test := range []struct {
		prefix, name, at string
		want             string
	}{
		{"", "prod:px", "prod:", "holdfast"},
		{"", "prod/eu:px:7", "prod/eu:", "holdfast"},
		{"prod:", "eu.px", "prod:eu.", "holdfast"},
		{"", "a:b:c:d:e", "a:b:c:d:", "redisson"}, // the fourth is not tried
		{"", "px", "prod:", "redisson"},
		{"", "px:", "px:", "redisson"}, // nothing is left of the name
	} {
		for _, cluster := range []bool{false, true} {
			asked := 0
			conn := &fakeConn{
				server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: cluster}, nil },
				answer: answering(map[string]func(Call) Result{"list_redisson": listAll, "client": func(c Call) Result {
					asked += len(c.Keys)
					var found []any
					for _, key := range c.Keys {
						text := ""
						if key == test.at+"holdfast:client:"+testUUID {
							text = registered
						}
						found = append(found, text)
					}
					return Result{Value: append(found, "1000")}
				}}),
			}
			records, err := New(conn, &Options{KeyPrefix: test.prefix}).Get(t.Context(), test.name)
			if err != nil || records[0].Holds[0].Client.Library != test.want || asked > 4 {
				t.Errorf("%q of %q: got %+v after %d keys and error %v, want a client of %s", test.name, test.prefix, records[0].Holds, asked, err, test.want)
			}
		}
	}
}
