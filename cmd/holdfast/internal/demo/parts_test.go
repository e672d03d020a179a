package demo

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
)

func plain(_ style, text string) string { return text }

func TestTable(t *testing.T) {
	got := table([]result{
		{round: "1  without a lock", outcome: outcome{Buyers: 60, Items: 10, Sold: 60, Took: 41}, verdict: "oversold, as it must"},
		{round: "2  with a lock", outcome: outcome{Buyers: 60, Items: 10, Sold: 10, Took: 1234}, verdict: "exact"},
		{round: "3  paused holder", outcome: outcome{Buyers: 2, Items: 1, Sold: 2, Took: 2000}, verdict: "stale write refused", missed: []string{"no"}},
	}, plain)
	want := strings.TrimPrefix(`
round              buyers  items   sold  oversold     time  verdict
1  without a lock      60     10     60        50   0.04 s  oversold, as it must
2  with a lock         60     10     10         0   1.23 s  exact
3  paused holder        2      1      2         1   2.00 s  FAILED
`, "\n")
	if got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

func TestARaceWithALockIsJudged(t *testing.T) {
	good := outcome{Items: 3, tokens: []uint64{3, 5, 9}, SoldOut: 2}
	for _, c := range []struct {
		name   string
		spoil  func(*outcome)
		missed string // "" if nothing is wrong
	}{
		{"good", func(*outcome) {}, ""},
		{"too many", func(o *outcome) { o.tokens = []uint64{3, 5, 9, 10} }, "sold 4 of 3 items"},
		{"too few", func(o *outcome) { o.tokens = []uint64{3, 5} }, "sold 2 of 3 items"},
		{"stock left", func(o *outcome) { o.Stock = 1 }, "the stock ended at 1"},
		{"negative stock", func(o *outcome) { o.least = -1 }, "saw a stock of -1"},
		{"token falls", func(o *outcome) { o.tokens = []uint64{3, 9, 5} }, "sale 3 has fencing token 5"},
		{"token repeats", func(o *outcome) { o.tokens = []uint64{3, 3, 5} }, "sale 2 has fencing token 3"},
		{"no tokens", func(o *outcome) { o.tokens = []uint64{0, 0, 0} }, "sale 2 has fencing token 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := good
			c.spoil(&o)
			o.Sold = len(o.tokens)
			r := result{outcome: o}
			r.checkLocked()
			got := strings.Join(r.missed, "; ")
			if (c.missed == "") != (got == "") || !strings.Contains(got, c.missed) {
				t.Fatalf("got %q, want %q", got, c.missed)
			}
		})
	}
}

func TestLedgerRefusesSmallerTokens(t *testing.T) {
	server, err := StartStandIn()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := open.Access{URL: server.URL()}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	shop := newShop(conn, keys{"holdfast-demo:test:", lockName})
	for _, c := range []struct {
		token, seen uint64
		accepted    bool
	}{
		{9, 9, true},
		{10, 10, true}, // as text it would be smaller
		{9, 10, false},
		{10, 10, true},                // one holder writes many times
		{1<<64 - 1, 1<<64 - 1, true},  // more digits than a Lua number holds
		{1<<64 - 2, 1<<64 - 1, false}, // by one
		{1_700_000_000_000_000, 18446744073709551615, false}, // an older time in microseconds
	} {
		accepted, seen, err := shop.write(t.Context(), "somebody", c.token)
		if err != nil {
			t.Fatal(err)
		}
		if accepted != c.accepted || seen != c.seen {
			t.Errorf("token %d: got %v, seen %d; want %v, seen %d", c.token, accepted, seen, c.accepted, c.seen)
		}
	}
	if rows, err := shop.number(t.Context(), "HGET", shop.keys.ledger(), "rows"); err != nil || rows != 4 {
		t.Errorf("got %d rows, %v; want the 4 that were accepted", rows, err)
	}
}

func TestCheck(t *testing.T) {
	good := Options{Buyers: 2, Items: 1, Processes: 1, Timeout: 1}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Options){
		"nobody competes": func(o *Options) { o.Items = 2 },
		"no items":        func(o *Options) { o.Items = 0 },
		"no processes":    func(o *Options) { o.Processes = 0 },
		"many processes":  func(o *Options) { o.Processes = maxProcesses + 1 },
		"many buyers":     func(o *Options) { o.Buyers = maxBuyers + 1 },
		"no timeout":      func(o *Options) { o.Timeout = 0 },
		"negative look":   func(o *Options) { o.Look = -1 },
	} {
		o := good
		spoil(&o)
		if o.Check() == nil {
			t.Errorf("%s: got nil, want an error", name)
		}
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	for _, c := range []struct {
		access open.Access
		cli    string
	}{
		{open.Access{URL: "redis://127.0.0.1:1234"}, "redis-cli -u redis://127.0.0.1:1234"},
		{
			open.Access{URL: "redis://app:secret@db.example:6380/2"},
			"redis-cli -u redis://db.example:6380/2 --user app --askpass",
		},
		{open.Access{URL: "rediss://:secret@db.example"}, "redis-cli -u rediss://db.example --askpass"},
		{open.Access{URL: "unix:///run/redis.sock"}, "redis-cli -s /run/redis.sock"},
		{
			open.Access{URL: "rediss://app@db.example", Username: "me", Password: "secret", CACert: "ca.pem", Cert: "c.pem", Key: "k.pem", ServerName: "n", Insecure: true},
			"redis-cli -u rediss://db.example --user me --cacert ca.pem --cert c.pem --key k.pem --sni n --insecure --askpass",
		},
	} {
		if got := redisCLI(c.access); got != c.cli {
			t.Errorf("redis-cli of %s: got %q, want %q", c.access.URL, got, c.cli)
		}
	}
	if err := CheckURL("redis://:secret@bad host:x"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without the password", err)
	}
}

func TestDemoWantsOneServer(t *testing.T) {
	for _, url := range []string{"redis+cluster://h", "redis-sentinel://h/m", "redis://h?addr=i", "redis://h,i"} {
		if err := CheckURL(url); err == nil || !strings.Contains(err.Error(), "a single server") {
			t.Errorf("%s: got error %v", url, err)
		}
	}
}

func TestScreenRewritesOnlyOnATerminal(t *testing.T) {
	for _, c := range []struct {
		live bool
		want string
	}{
		{false, "  said\n"},
		{true, "\r\x1b[K  1 of 2\r\x1b[K  2 of 2\r\x1b[K  said\n"},
	} {
		var b strings.Builder
		s := demo{Options: Options{Out: &b, Terminal: c.live}}
		s.status("1 of %d", 2)
		s.status("2 of %d", 2)
		s.printf("said")
		if got := b.String(); got != c.want {
			t.Errorf("live %v: got %q, want %q", c.live, got, c.want)
		}
	}
}
