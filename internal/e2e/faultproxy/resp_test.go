package faultproxy

import (
	"bufio"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/proto"
)

func TestReadValueTakesOneWholeValue(t *testing.T) {
	for _, raw := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$3\r\na\r\n\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"_\r\n", "#t\r\n", ",1.5\r\n", ",inf\r\n", "(3492890328409238509324850943850943825024385\r\n",
		"=15\r\ntxt:Some string\r\n", "!5\r\nERR a\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n#f\r\n_\r\n", "~2\r\n+a\r\n=5\r\ntxt:b\r\n",
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n",
		"|1\r\n+ttl\r\n:3600\r\n*2\r\n+a\r\n(1\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(raw + "+next\r\n"))
		got, err := readValue(r)
		if err != nil || got != raw {
			t.Errorf("got %q, %v, want %q", got, err, raw)
		}
		if next, err := readValue(r); next != "+next\r\n" {
			t.Errorf("after %q: got %q, %v", raw, next, err)
		}
	}
}

func TestPairing(t *testing.T) {
	confirm := func(event, channel, count string) string {
		return proto.Array(proto.String(event), proto.String(channel), ":"+count+"\r\n")
	}
	push := func(raw string) string { return ">" + raw[1:] }
	type step struct {
		raw  string
		want string // the command that it answers
		last bool
	}
	for name, tc := range map[string]struct {
		cmds  []string
		steps []step
	}{
		"in order": {
			[]string{"GET a", "GET b"},
			[]step{{"+1\r\n", "GET a", true}, {"-ERR 2\r\n", "GET b", true}, {"-ERR unasked\r\n", "", false}},
		},
		"push messages are no replies": {
			[]string{"GET a"},
			[]step{{push(proto.Strings("invalidate", "k", "x")), "", false}, {"+1\r\n", "GET a", true}},
		},
		"a list that looks like a message is a reply": {
			[]string{"LRANGE a"},
			[]step{{proto.Strings("message", "c", "p"), "LRANGE a", true}},
		},
		"two confirmations, RESP2": {
			[]string{"subscribe a b", "PING"},
			[]step{
				{confirm("subscribe", "a", "1"), "subscribe a b", false},
				{proto.Strings("message", "a", "p"), "", false},
				{confirm("subscribe", "b", "2"), "subscribe a b", true},
				{proto.Strings("message", "b", "p"), "", false},
				{proto.Strings("pong", ""), "PING", true},
			},
		},
		"unsubscribe from all, RESP3": {
			[]string{"SUBSCRIBE a b", "GET x", "UNSUBSCRIBE", "GET y"},
			[]step{
				{push(confirm("subscribe", "a", "1")), "SUBSCRIBE a b", false},
				{push(confirm("subscribe", "b", "2")), "SUBSCRIBE a b", true},
				{push(proto.Strings("message", "a", "p")), "", false},
				{proto.Strings("message", "a", "p"), "GET x", true},
				{push(confirm("unsubscribe", "a", "1")), "UNSUBSCRIBE", false},
				{push(confirm("unsubscribe", "b", "0")), "UNSUBSCRIBE", true},
				{"+1\r\n", "GET y", true},
			},
		},
		"unsubscribe from nothing": {
			[]string{"UNSUBSCRIBE", "GET y"},
			[]step{
				{proto.Array(proto.String("unsubscribe"), proto.Nil, ":0\r\n"), "UNSUBSCRIBE", true},
				{"+1\r\n", "GET y", true},
			},
		},
		"a refused subscription": {
			[]string{"SUBSCRIBE a b", "GET y"},
			[]step{{"-NOPERM\r\n", "SUBSCRIBE a b", true}, {"+1\r\n", "GET y", true}},
		},
	} {
		var q pairing
		for _, cmd := range tc.cmds {
			q.pending = append(q.pending, &request{cmd: strings.Fields(cmd)})
		}
		for i, s := range tc.steps {
			req, last := q.pair(s.raw)
			var got string
			if req != nil {
				got = strings.Join(req.cmd, " ")
			}
			if got != s.want || last != s.last {
				t.Errorf("%s, step %d: got %q, %v, want %q, %v", name, i, got, last, s.want, s.last)
			}
			if last {
				q.pop()
			}
		}
	}
}
