package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

const historyKey = "holdfast:history"

func TestHistoryScripts(t *testing.T) {
	b := newBench(t)
	keys := []string{historyKey}
	empty := b.run("history_read", keys, "", 60_000, 10).([]any)
	if len(empty) != 1 || len(empty[0].(string)) != len("1795337659735") {
		t.Fatalf("without a history: got %v, want the time alone", empty)
	}
	b.want(n(3), "history_add", keys, 1000, 60_000, "me", "a", "b", "c")
	b.wantTTL(historyKey, 60_000)
	b.Do("XADD", historyKey, "*", "something", "else")
	all := b.run("history_read", keys, "", 60_000, 10).([]any)
	if got, want := fmt.Sprint(all[2:4], all[5:7], all[8:10], all[11:]), "[me a] [me b] [me c] [ ]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	second := all[4].(string)
	if rest := b.run("history_read", keys, second, 0, 2).([]any); len(rest) != 7 || rest[1] != second {
		t.Errorf("from %s: got %v, want it and the next", second, rest)
	}
	if old := b.run("history_read", keys, "", -60_000, 10).([]any); len(old) != 1 {
		t.Errorf("of the future: got %v", old)
	}
	b.want(n(250), "history_add", keys, append([]any{100, 60_000, "me"}, make250()...)...)
	if got := b.Int("XLEN", historyKey); got < 100 || got > 200 { // a hundred to a node
		t.Errorf("got %d entries, want about 100", got)
	}
	b.Do("DEL", historyKey)
	b.Do("SET", historyKey, "mine")
	for script, args := range map[string][]any{"history_add": {100, 60_000, "me", "a"}, "history_read": {"", 60_000, 10}} {
		if _, err := eval(t, b.client, script, keys, args...); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: got error %v, want WRONGTYPE", script, err)
		}
	}
	if got := b.String("GET", historyKey); got != "mine" || b.Int("TTL", historyKey) != -1 {
		t.Errorf("a key that is somebody else's: got %q", got)
	}
}

func make250() []any {
	all := make([]any, 250)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

// What others wrote costs its own entry, and nothing else.
func TestHistoryIsNotBelieved(t *testing.T) {
	server := redistest.Start(t)
	b := redishold.New(connect(t, server.Addr(), "", ""), nil)
	long := strings.Repeat("x", 5000)
	for _, what := range []string{
		"", "{", "[]", `{"event":7}`,
		`{"event":"acquired\u001b[2J","ago_ms":-5,"name":"` + long + `","held_ms":-1,"count":-7,"mode":"?","kind":"\u0000"}`,
		`{"event":"lost","ago_ms":9223372036854775807,"held_ms":9223372036854775807,"reason":"` + long + `"}`,
	} {
		server.Do("XADD", historyKey, "*", "who", `{"id":"a\u001b","note":"`+long+`","pid":1}`, "what", what)
	}
	if err := b.Record(bounded(t), driver.Chapter{Client: "c", Happenings: []driver.Happening{{Event: driver.EventLost, At: time.Now(), Name: "job"}}}); err != nil {
		t.Fatal(err)
	}
	list, err := b.History(bounded(t), driver.HistoryOptions{Past: time.Hour})
	if err != nil || len(list) != 7 {
		t.Fatalf("got %d and error %v, want 7", len(list), err)
	}
	for i, h := range list[:4] {
		if h.Event != "" || h.ID == "" {
			t.Errorf("nonsense %d: got %+v, want an ID and nothing else", i, h)
		}
	}
	now := time.Now()
	for _, h := range list[4:6] {
		printed := fmt.Sprint(h.Event, h.Name, h.Kind, h.Note, h.Reason, h.Client)
		if strings.ContainsAny(printed, "\x1b\x00") || len(printed) > 2000 || h.At.After(now) || h.Held < 0 || h.Count < 0 {
			t.Errorf("got %+v", h)
		}
	}
	if h := list[6]; h.Name != "job" || h.Event != driver.EventLost {
		t.Errorf("got %+v, want what is true", h)
	}
}

// A user without the right to write the history has his locks, and is told once;
// one who may not read it is told so.
func TestHistoryRights(t *testing.T) {
	server := redistest.Start(t)
	var log bytes.Buffer
	b := limited(t, server, "~* &* "+leastRights)
	l := holdfast.New(b, &holdfast.Options{History: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		lock, err := l.TryLock(bounded(t), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(lock.Unlock(), l.Drain(bounded(t))); err != nil {
			t.Fatal(err)
		}
	}
	if got := log.String(); strings.Count(got, "history is not kept") != 1 || !strings.Contains(got, "xadd") {
		t.Errorf("got %s, want one warning that names the right", got)
	}
	var reply *redishold.ReplyError
	if _, err := l.History(bounded(t), driver.HistoryOptions{Past: time.Hour}); !errors.As(err, &reply) || !strings.Contains(err.Error(), "xrange") {
		t.Errorf("got error %v, want the server's", err)
	}
	l = holdfast.New(limited(t, server, "~* &* +xadd +xrange "+leastRights), &holdfast.Options{History: true})
	lock, err := l.TryLock(bounded(t), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Unlock(), l.Drain(bounded(t))); err != nil {
		t.Fatal(err)
	}
	if list, err := l.History(bounded(t), driver.HistoryOptions{Past: time.Hour}); err != nil || len(list) != 2 {
		t.Errorf("got %+v and error %v, want 2", list, err)
	}
}
