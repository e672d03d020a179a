package doctor

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// examine examines servers in a bubble, in which nothing may be left behind.
func examine(t *testing.T, conn redishold.Conn, o Options) *Report {
	t.Helper()
	var r *Report
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = Examine(t.Context(), conn, &o); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// at is the clock of a bubble as TIME returns it, d ahead.
func at(d time.Duration) []any {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
	return []any{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)}
}

func one(a answers) *fakeConn {
	if a["TIME"] == nil {
		a["TIME"] = at(0)
	}
	return &fakeConn{servers: map[string]Ask{"h:6379": a.ask}}
}

func find(r *Report, id string) Finding {
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.ID == id })
	if i < 0 {
		return Finding{Severity: -1}
	}
	return r.Findings[i]
}

func TestHealthy(t *testing.T) {
	r := examine(t, one(healthy("", nil)), Options{})
	for _, f := range r.Findings {
		if f.Severity != OK {
			t.Errorf("got %+v", f)
		}
	}
	if r.Worst != OK || r.Deployment != "standalone" || len(r.Findings) < 19 {
		t.Errorf("got %+v", r)
	}
}

// What a real server cannot easily be made to say.
func TestFindings(t *testing.T) {
	cluster := func(state string, more answers) answers {
		changes := answers{
			"CLUSTER INFO":  "cluster_state:" + state + "\r\ncluster_slots_assigned:16384\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n",
			"CLUSTER NODES": "id 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\n",
		}
		for command, answer := range more {
			changes[command] = answer
		}
		return healthy("cluster_enabled:1\r\n", changes)
	}
	for name, test := range map[string]struct {
		server   answers
		id       string
		severity Severity
		saw      string
	}{
		"too old":             {healthy("redis_version:6.0.16\r\n", nil), "version", Danger, "6.0.16"},
		"with holes":          {healthy("redis_version:7.2.10\r\n", nil), "lua-holes", Note, "Redis 7.2.10"},
		"never fixed":         {healthy("redis_version:7.0.99\r\n", nil), "lua-holes", Note, "7.0.99"},
		"fixed":               {healthy("redis_version:7.2.11\r\n", nil), "lua-holes", -1, ""},
		"newer":               {healthy("redis_version:9.0.0\r\n", nil), "lua-holes", -1, ""},
		"Valkey with holes":   {healthy("redis_version:7.2.4\r\nvalkey_version:8.0.5\r\n", nil), "lua-holes", Note, "Valkey 8.0.5"},
		"Valkey fixed":        {healthy("redis_version:7.2.4\r\nvalkey_version:8.1.4\r\n", nil), "lua-holes", -1, ""},
		"no version":          {healthy("redis_version:\r\n", nil), "version", Unknown, ""},
		"loading":             {healthy("loading:1\r\n", nil), "writes", Danger, "LOADING"},
		"log not written":     {healthy("aof_last_write_status:err\r\n", nil), "writes", Danger, "MISCONF"},
		"slow fork":           {healthy("latest_fork_usec:1500000\r\n", nil), "fork", Note, "1.5s"},
		"stood still":         {healthy("latest_fork_usec:3500000\r\n", nil), "fork", Warning, "3.5s"},
		"clock behind":        {healthy("", answers{"TIME": at(-90 * time.Second)}), "clock", Warning, "1m30s behind"},
		"clock nearly right":  {healthy("", answers{"TIME": at(900 * time.Millisecond)}), "clock", OK, "900ms ahead"},
		"replica behind":      {healthy("connected_slaves:1\r\nslave0:ip=h,port=1,state=online,offset=1,lag=9\r\n", nil), "replica-lag", Warning, "1 of 1"},
		"replica in transfer": {healthy("connected_slaves:1\r\nslave0:ip=h,port=1,state=wait_bgsave,offset=1,lag=0\r\n", nil), "replica-lag", Warning, ""},
		"link is down":        {healthy("role:slave\r\nmaster_link_status:down\r\n", nil), "replica-lag", Warning, "down"},
		"empties replicas": {healthy("aof_enabled:0\r\nconnected_slaves:1\r\n", answers{
			"CONFIG GET save": []any{"save", ""}, "PUBSUB NUMSUB __sentinel__:hello": []any{"__sentinel__:hello", int64(3)},
		}), "persistence", Danger, ""},
		"says not how often it syncs": {healthy("", answers{"CONFIG GET appendfsync": errNoPerm()}), "persistence", Unknown, "does not report appendfsync"},
		"cluster is down":             {cluster("fail", nil), "cluster-state", Danger, "fail"},
		"cluster in order":            {cluster("ok", nil), "cluster-migration", OK, ""},
		"cluster, no replicas":        {cluster("ok", nil), "replicas", Warning, ""},
		"slots have failed": {cluster("ok", answers{
			"CLUSTER INFO": "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:9\r\n",
		}), "cluster-state", Danger, "have failed: 9"},
		"slots may have failed": {cluster("ok", answers{
			"CLUSTER INFO": "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_pfail:5\r\ncluster_slots_fail:0\r\n",
		}), "cluster-state", Warning, "do not answer this node: 5"},
		"slots on the move": {cluster("ok", answers{
			"CLUSTER NODES": "id 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383 [93->-x] [77-<-y] [78-<-y]\n",
		}), "cluster-migration", Warning, "1 from this node, 2 to this node"},
		"cluster does not tell": {cluster("ok", answers{"CLUSTER INFO": errNoPerm()}), "cluster-state", Unknown, ""},
		"secret in the slow log": {healthy("", answers{"SLOWLOG GET 32": []any{
			[]any{int64(1), int64(946684790), int64(4000000), []any{"config", "set", "requirepass", "s3cret"}, "h:1", ""},
			[]any{int64(0), int64(946600000), int64(9000000), []any{"keys", "*"}, "h:1", ""}, // yesterday
		}}), "slow-commands", Warning, "the command CONFIG kept the server busy for 4s"},
		"escape sequences": {healthy("maxmemory_policy:\x1b[31mall\xff\r\n", nil), "eviction", Note, "maxmemory-policy is ?[31mall?"},
	} {
		t.Run(name, func(t *testing.T) {
			r := examine(t, one(test.server), Options{})
			f := find(r, test.id)
			if f.Severity != test.severity || !strings.Contains(f.Saw, test.saw) {
				t.Errorf("got %+v, want %v and %q", f, test.severity, test.saw)
			}
			if f.Severity > Unknown && (f.Why == "" || f.Remedy == "") {
				t.Errorf("got %+v, want reason and remedy", f)
			}
			if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "s3cret") {
				t.Errorf("got %s, %v", text, err)
			}
		})
	}
}

// No right helps where the server does not have a command.
func TestWithoutTheCommand(t *testing.T) {
	unknown := &redishold.ReplyError{Text: "ERR unknown command 'INFO'"}
	changes := answers{"INFO": unknown, "PING": unknown, "TIME": unknown}
	for _, name := range settings() {
		changes["CONFIG GET "+name] = unknown
	}
	changes["SLOWLOG GET 32"] = errNoPerm()
	r := examine(t, one(healthy("", changes)), Options{})
	for id, command := range map[string]string{"info": "INFO", "latency": "PING", "clock": "TIME", "script-limit": "CONFIG"} {
		f := find(r, id)
		if want := "it does not have the command " + command; !strings.HasSuffix(f.Saw, want) || f.Remedy != "" {
			t.Errorf("got %+v, want %q and no remedy", f, want)
		}
	}
	if f := find(r, "slow-commands"); f.Remedy != setUser+"+slowlog|get" {
		t.Errorf("got %+v, want the right that is missing", f)
	}
}

func errNoPerm() error { return &redishold.ReplyError{Text: "NOPERM"} }

func TestSentinels(t *testing.T) {
	about := func(changes ...any) answers {
		master := []any{
			"ip", "10.0.0.1", "port", "6379", "flags", "master", "num-slaves", "2", "num-other-sentinels", "2",
			"quorum", "2", "down-after-milliseconds", "5000",
		}
		return answers{"SENTINEL MASTER m": append(master, changes...), "SENTINEL CKQUORUM m": "OK 3 usable Sentinels"}
	}
	noQuorum := about()
	noQuorum["SENTINEL CKQUORUM m"] = &redishold.ReplyError{Text: "NOQUORUM 1 usable Sentinels"}
	for name, test := range map[string]struct {
		sentinels []answers
		id        string
		severity  Severity
	}{
		"in order":           {[]answers{about(), about(), about()}, "sentinel-state", OK},
		"quick enough":       {[]answers{about()}, "sentinel-timeout", OK},
		"slow":               {[]answers{about("down-after-milliseconds", "30000")}, "sentinel-timeout", Note},
		"down":               {[]answers{about(), about("flags", "master,o_down")}, "sentinel-state", Danger},
		"failover":           {[]answers{about("flags", "master,o_down,failover_in_progress")}, "sentinel-state", Warning},
		"two":                {[]answers{about("num-other-sentinels", "1"), about("num-other-sentinels", "1")}, "sentinels", Warning},
		"three":              {[]answers{about()}, "sentinels", OK},
		"split":              {[]answers{about(), about("ip", "10.0.0.2")}, "sentinel-master", Danger},
		"no quorum":          {[]answers{about(), noQuorum}, "sentinel-quorum", Danger},
		"quorum of all":      {[]answers{about("quorum", "3")}, "sentinel-quorum", Warning},
		"quorum of one":      {[]answers{about("quorum", "1")}, "sentinel-quorum", Note},
		"nobody to promote":  {[]answers{about("num-slaves", "0")}, "sentinel-replicas", Warning},
		"one is silent":      {[]answers{about(), {"SENTINEL MASTER m": errCut}}, "sentinels-answer", Warning},
		"all are silent":     {[]answers{{"SENTINEL MASTER m": errCut}, {"SENTINEL MASTER m": errCut}}, "sentinels-answer", Danger},
		"none knows that":    {[]answers{{"SENTINEL MASTER m": &redishold.ReplyError{Text: "ERR No such master with that name"}}}, "sentinels-answer", Danger},
		"tells nothing more": {[]answers{{"SENTINEL MASTER m": []any{}, "SENTINEL CKQUORUM m": ""}}, "sentinel-timeout", Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			all := &fakeConn{servers: map[string]Ask{}}
			for i, s := range test.sentinels {
				all.servers["s"+strconv.Itoa(i)+":26379"] = s.ask
			}
			r := examine(t, one(healthy("", nil)), Options{Sentinels: all, Master: "m"})
			if f := find(r, test.id); f.Severity != test.severity {
				t.Errorf("got %+v, want %v", f, test.severity)
			}
			if r.Deployment != "sentinel" || len(r.Servers) != 1+len(test.sentinels) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// advised is a Conn that knows how its client is set up.
type advised struct {
	*fakeConn
	advice []redishold.Advice
}

func (a advised) Advice() []redishold.Advice { return a.advice }

// What a Conn thinks of its client's settings is reported.
func TestClientSettings(t *testing.T) {
	bad := []redishold.Advice{{Setting: "FailoverOptions.MaxRetries", Is: "3", Better: "-1", Why: "Because."}}
	for _, test := range []struct {
		conn     redishold.Conn
		severity Severity
		saw      string
		remedy   string
	}{
		{advised{one(healthy("", nil)), bad}, Warning, "FailoverOptions.MaxRetries of the client is 3", "FailoverOptions.MaxRetries: -1"},
		{advised{one(healthy("", nil)), nil}, OK, "the client finds a new master soon", ""},
		{one(healthy("", nil)), -1, "", ""}, // it cannot say
	} {
		f := find(examine(t, test.conn, Options{}), "client-settings")
		if f.Severity != test.severity || f.Saw != test.saw || f.Remedy != test.remedy {
			t.Errorf("got %+v, want %+v", f, test)
		}
	}
}

// A Conn that allows no questions answers what it can.
func TestPlainConn(t *testing.T) {
	r := examine(t, struct{ redishold.Conn }{&fakeConn{}}, Options{})
	if f := find(r, "eviction"); f.Severity != Note {
		t.Errorf("got %+v", f)
	}
	for _, id := range []string{"clock", "latency", "script-limit", "persistence"} {
		if f := find(r, id); f.Severity != Unknown {
			t.Errorf("got %+v, want that it is not known", f)
		}
	}
}

// A finding says what was seen, and its reason says what follows from that: neither repeats the
// other.
func TestPersistenceSaysItOnce(t *testing.T) {
	for _, save := range []string{"", "3600 1"} {
		r := examine(t, one(healthy("aof_enabled:0\r\n", answers{"CONFIG GET save": []any{"save", save}})), Options{})
		f := find(r, "persistence")
		if f.Severity != Warning || strings.Count(f.Saw+". "+f.Why, "forgotten") != 1 || !strings.Contains(f.Saw, "appendonly no") {
			t.Errorf("save %q: got %+v, want once that locks are forgotten", save, f)
		}
	}
}

// Messages that do not arrive are noticed, in time.
func TestMessagesLost(t *testing.T) {
	conn := one(healthy("", nil))
	conn.mute = true
	r := examine(t, conn, Options{})
	if f := find(r, "pubsub"); f.Severity != Warning || !strings.Contains(f.Saw, "did not arrive") {
		t.Errorf("got %+v", f)
	}
}

// A server that stops responding is asked no more, and the others are.
func TestFallsSilent(t *testing.T) {
	silent := healthy("", answers{"TIME": at(0), "CONFIG GET save": errCut})
	other := healthy("run_id:other\r\n", answers{"TIME": at(0)})
	r := examine(t, &fakeConn{servers: map[string]Ask{"a:1": silent.ask, "b:1": other.ask}}, Options{})
	f := find(r, "answers")
	if f.Severity != Warning || !slices.Equal(f.Servers, []string{"a:1"}) || !strings.Contains(f.Saw, errCut.Error()) {
		t.Errorf("got %+v", f)
	}
	if f := find(r, "persistence"); !slices.Equal(f.Servers, []string{"b:1"}) {
		t.Errorf("got %+v", f)
	}
	alone := &fakeConn{servers: map[string]Ask{"a:1": silent.ask}}
	if r, err := Examine(t.Context(), alone, nil); !errors.Is(err, errCut) {
		t.Errorf("got %+v, %v, want the error of the only server", r, err)
	}
}

// The same finding of several servers is one, and the worst come first.
func TestMerge(t *testing.T) {
	a, b := healthy("", nil), healthy("run_id:b\r\nmaxmemory_policy:allkeys-lru\r\n", nil)
	again := healthy("", nil) // a by another name
	a["TIME"], b["TIME"], again["TIME"] = at(0), at(0), at(0)
	r := examine(t, &fakeConn{servers: map[string]Ask{"a:1": a.ask, "b:1": b.ask, "localhost:1": again.ask}}, Options{})
	if f := find(r, "script-limit"); !slices.Equal(f.Servers, []string{"a:1", "b:1"}) {
		t.Errorf("got %+v", f)
	}
	if f := r.Findings[0]; f.ID != "eviction" || f.Severity != Note || !slices.Equal(f.Servers, []string{"b:1"}) {
		t.Errorf("got %+v first", f)
	}
}

// The JSON is what docs/doctor.md says.
func TestReportJSON(t *testing.T) {
	r := Report{
		Version: ReportVersion, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Deployment: "standalone", TTLMillis: 1000,
		Servers: []Server{{Address: "h:1", Version: "Redis 8.2.2", Role: "master"}}, Worst: Warning,
		Findings: []Finding{{ID: "clock", Severity: Warning, Servers: []string{"h:1"}, Saw: "s", Why: "w", Remedy: "r"}},
	}
	text, err := json.Marshal(r)
	const want = `{"version":1,"at":"2026-01-02T03:04:05Z","deployment":"standalone","ttl_ms":1000,` +
		`"servers":[{"address":"h:1","version":"Redis 8.2.2","role":"master"}],"worst":"warning",` +
		`"findings":[{"id":"clock","severity":"warning","servers":["h:1"],"saw":"s","why":"w","remedy":"r"}]}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v; want %s", text, err, want)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Worst != Warning || back.Findings[0].Severity != Warning {
		t.Errorf("got %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"worst":"bad"}`), &back); err == nil {
		t.Error("an unknown severity was accepted")
	}
}
