package redishold

import (
	"strings"
	"testing"
	"time"
)

func TestParseTry(t *testing.T) {
	for _, c := range []struct {
		value any
		want  tryReply
	}{
		{int64(7), tryReply{token: 7}},
		{[]any{int64(0), int64(1500), "a:1", "1"}, tryReply{remaining: 1500 * time.Millisecond, owner: "a:1"}},
		{[]any{int64(0), int64(-1), "", "0"}, tryReply{remaining: -time.Millisecond}},
		{[]any{int64(-1)}, tryReply{otherKind: true}},
		{[]any{int64(-2), "abandoned"}, tryReply{ended: true, tombstone: "abandoned"}},
	} {
		if got, err := parseTry(c.value); err != nil || got != c.want {
			t.Errorf("%v: got %+v and error %v, want %+v", c.value, got, err, c.want)
		}
	}
}

func TestMalformedRepliesAreErrors(t *testing.T) {
	values := []any{
		nil, int64(-1), int64(1) << 53, "", "OK", "1", 1.0,
		[]any{},
		[]any{nil},
		[]any{nil, nil},
		[]any{"1", int64(7)},
		[]any{int64(1)},
		[]any{int64(1), "7"},
		[]any{int64(1), nil},
		[]any{int64(1), int64(0)},
		[]any{int64(1), int64(-7)},
		[]any{int64(1), int64(1) << 53},
		[]any{int64(2), int64(7)},
		[]any{int64(1), int64(7)},
		[]any{int64(1), int64(7), int64(8)},
		[]any{[]any{int64(1), int64(7)}},
		[]any{int64(0), nil},
		[]any{int64(0), int64(5)},
		[]any{int64(0), "5", "a:1", "1"},
		[]any{int64(-2)},
		[]any{int64(-2), nil},
		[]any{int64(-1), int64(0)},
		[]any{int64(1), int64(5), nil},
	}
	for _, v := range values {
		if got, err := parseTry(v); !isScriptBug(err, "acquire") {
			t.Errorf("acquire %#v: got %+v and error %v, want one that names the script", v, got, err)
		}
		if got, err := parseRenew(v); !isScriptBug(err, "renew") && v != int64(-1) {
			t.Errorf("renew %#v: got %v and error %v, want one that names the script", v, got, err)
		}
		if got, err := parseExplain(v); !isScriptBug(err, "explain") {
			t.Errorf("explain %#v: got %+v and error %v, want one that names the script", v, got, err)
		}
		if got, err := parseProbe(v); !isScriptBug(err, "probe") {
			t.Errorf("probe %#v: got %+v and error %v, want one that names the script", v, got, err)
		}
	}
	b := New(nil, nil)
	for _, v := range []any{nil, int64(-2), int64(1) << 40, "1", 1.0, []any{int64(1)}, []any{int64(1), int64(0)}, []any{int64(0), "a:1", "1"}, []any{int64(1), "a:1"}} {
		if _, err := b.ended(b.scripts.Release, v); !isScriptBug(err, "release") {
			t.Errorf("release %#v: got error %v, want one that names the script", v, err)
		}
	}
}

// isScriptBug reports whether err is that of wire.BadReply for the script.
func isScriptBug(err error, script string) bool {
	return err != nil && strings.Contains(err.Error(), "script "+script+" answered")
}

// FuzzOutcome feeds any tree of values that a Conn can return into the reader of
// acquire's reply: nothing but a token is a grant.
func FuzzOutcome(f *testing.F) {
	f.Add([]byte{1, 7})
	f.Add([]byte{4, 2, 1, 1, 1, 7})
	f.Add([]byte{4, 4, 1, 0, 1, 9, 2, 3, 'a', ':', '1', 2, 1, '1'})
	f.Add([]byte{4, 1, 1, 255})
	f.Add([]byte{4, 2, 4, 2, 1, 1, 1, 7, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		value, _ := grow(data, 0)
		reply, err := parseTry(value)
		if err != nil && reply != (tryReply{}) {
			t.Fatalf("%#v: got %+v beside error %v", value, reply, err)
		}
		if err != nil || reply.token == 0 {
			return
		}
		if value != any(int64(reply.token)) {
			t.Fatalf("%#v: read as a grant with token %d", value, reply.token)
		}
	})
}

// grow makes a value from bytes and returns those that it did not use.
func grow(data []byte, depth int) (any, []byte) {
	if len(data) < 2 || depth > 3 {
		return nil, nil
	}
	kind, size, rest := data[0]%5, data[1], data[2:]
	switch kind {
	case 1:
		return int64(int8(size)), rest
	case 2:
		n := min(int(size), len(rest))
		return string(rest[:n]), rest[n:]
	case 3:
		return int64(size) << 50, rest
	case 4:
		list := make([]any, 0, size%6)
		for range size % 6 {
			var v any
			v, rest = grow(rest, depth+1)
			list = append(list, v)
		}
		return list, rest
	default:
		return nil, rest
	}
}
