package doctor

import (
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]release{
		"7.0.15": {7, 0, 15}, "8.0": {8, 0, 0}, "255.255.255": {255, 255, 255}, "7.4.0-rc1": {7, 4, 0},
	} {
		if got, ok := parseRelease(text); !ok || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "7", "x.y", "7.", ".1", "99999999999999999999.1"} {
		if got, ok := parseRelease(text); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestParseBufferLimit(t *testing.T) {
	hard, soft, ok := parseBufferLimit("normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60")
	if hard != 33554432 || soft != 8388608 || !ok {
		t.Errorf("got %d, %d, %v", hard, soft, ok)
	}
	for _, text := range []string{"", "pubsub", "pubsub 1 2", "pubsub 32mb 8mb 60", "normal 0 0 0"} {
		if _, _, ok := parseBufferLimit(text); ok {
			t.Errorf("%q was understood", text)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 1 << 62: "4096.0 PiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d: got %q, want %q", bytes, got, want)
		}
	}
}

// FuzzParse lets servers say what they like.
func FuzzParse(f *testing.F) {
	f.Add("# Server\r\nredis_version:7.0.15\r\nrole:master\r\nconnected_slaves:1\r\nslave0:ip=h,port=1,state=online,lag=0\r\n",
		"id 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383 [93->-x]\n", "pubsub 1 2 3", int64(946684790))
	f.Add("role:slave\nredis_version:7.2.\nmaxmemory:-1\nevicted_keys:9223372036854775807", "a b myself", "pubsub", int64(-1))
	f.Add("redis_mode:cluster\nlatest_fork_usec:-9223372036854775808\nconnected_slaves:9223372036854775807", "", "x", int64(1<<62))
	f.Fuzz(func(t *testing.T, info, nodes, limit string, number int64) {
		e := &exam{options: Options{}.withDefaults()}
		s := &server{
			addr: "h:1", info: parseInfo(info), cluster: parseInfo(info),
			config: map[string]string{"client-output-buffer-limit": limit, "min-replicas-to-write": limit, "save": limit, "cluster-node-timeout": nodes},
			slow:   parseSlowLog([]any{[]any{number, number, number, []any{info}}, nodes, nil}, time.Unix(number, 0)),
		}
		s.leaving, s.arriving = parseMigrating(nodes)
		e.servers = []*server{s}
		e.add(s, checkServer(e, s)...)
		r := e.report()
		for _, finding := range r.Findings {
			if finding.ID == "" || finding.Saw == "" || !utf8.ValidString(finding.Saw) {
				t.Fatalf("got %+v", finding)
			}
			for _, c := range finding.Saw {
				if !unicode.IsPrint(c) {
					t.Fatalf("got %q", finding.Saw)
				}
			}
		}
	})
}
