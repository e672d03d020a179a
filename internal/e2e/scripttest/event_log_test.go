package scripttest

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
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

const (
	eventLogKey = "holdfast:{events}"
	rareKey     = eventLogKey + ":rare"
)

func TestEventLogScripts(t *testing.T) {
	b := newBench(t)
	keys := []string{eventLogKey, rareKey}
	pages := func(after string, past, most int) (all, rare []any) {
		t.Helper()
		reply := b.run("event_log_read", keys, after, past, most).([]any)
		if len(reply) != 3 || len(reply[0].(string)) != len("1795337659735") {
			t.Fatalf("got %v, want a time and two pages", reply)
		}
		return reply[1].([]any), reply[2].([]any)
	}
	if all, rare := pages("", 60_000, 10); len(all)+len(rare) != 0 {
		t.Fatalf("without an event log: got %v and %v", all, rare)
	}
	b.want(n(3), "event_log_add", keys, 1000, 100, 60_000, "me", ".a", "!b", ".c")
	b.wantTTL(eventLogKey, 60_000)
	b.wantTTL(rareKey, 60_000)
	b.Do("XADD", eventLogKey, "*", "something", "else")
	all, rare := pages("", 60_000, 10)
	if got, want := fmt.Sprint(all[2:4], all[6:8], all[10:12], all[13:], rare[2:]), "[me a] [me b] [me c] [  ] [me b]"; got != want || rare[0] != all[4] {
		t.Errorf("got %s, want %s; %v and %v", got, want, all[4], rare[0])
	}
	second := all[4].(string)
	if rest, rare := pages(second, 0, 2); len(rest) != 8 || rest[0] != all[8] || len(rare) != 0 {
		t.Errorf("after %s: got %v and %v, want the two others", second, rest, rare)
	}
	if old, _ := pages("", -60_000, 10); len(old) != 0 {
		t.Errorf("of the future: got %v", old)
	}
	b.want(n(250), "event_log_add", keys, append([]any{100, 10, 60_000, "me"}, manyEvents(250)...)...)
	if got := b.Int("XLEN", eventLogKey); got < 100 || got > 200 { // a hundred to a node
		t.Errorf("got %d entries, want about 100", got)
	}
	if _, rare := pages("", 60_000, 10); rare[3] != "b" {
		t.Errorf("got %v, want what is rare still there", rare)
	}
	b.Do("DEL", eventLogKey)
	b.Do("SET", eventLogKey, "mine")
	for script, args := range map[string][]any{"event_log_add": {100, 10, 60_000, "me", ".a"}, "event_log_read": {"", 60_000, 10}} {
		if _, err := eval(t, b.client, script, keys, args...); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: got error %v, want WRONGTYPE", script, err)
		}
	}
	if got := b.String("GET", eventLogKey); got != "mine" || b.Int("TTL", eventLogKey) != -1 {
		t.Errorf("a key that is somebody else's: got %q", got)
	}
}

// Where a clock was ahead, ids are as well, for as long as there is a stream. It
// begins again, and readers who have seen such an id go by the time.
func TestEventLogAfterAClockThatWasAhead(t *testing.T) {
	b := newBench(t)
	keys := []string{eventLogKey, rareKey}
	const later = "9999999999999-0"
	for name, prepare := range map[string]func(){
		"both":  func() { b.Do("XADD", eventLogKey, later, "what", "x"); b.Do("XADD", rareKey, later, "what", "x") },
		"first": func() { b.Do("XADD", eventLogKey, later, "what", "x") },
		"rare":  func() { b.Do("XADD", rareKey, later, "what", "x") },
	} {
		b.Do("DEL", eventLogKey, rareKey)
		prepare()
		if reply := b.run("event_log_read", keys, "", 60_000, 10).([]any); fmt.Sprint(reply[1:]) != "[[] []]" {
			t.Errorf("%s: got %v, want nothing of the future", name, reply)
		}
		b.want(n(2), "event_log_add", keys, 100, 10, 60_000, "me", ".a", "!b")
		for _, after := range []string{"", later} {
			reply := b.run("event_log_read", keys, after, 60_000, 10).([]any)
			all, rare := reply[1].([]any), reply[2].([]any)
			if len(all) != 8 || len(rare) != 4 || all[7] != "b" || rare[0] != all[4] {
				t.Errorf("%s, after %q: got %v and %v, want a and b", name, after, all, rare)
			}
		}
	}
}

func manyEvents(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = "." + strconv.Itoa(i)
	}
	return all
}

// A page is what comes next of both streams, and those who go on from its last miss
// nothing.
func TestEventLogComesInPages(t *testing.T) {
	_, b := startStore(t, &redishold.Options{LogLength: 100})
	var entries []admin.Entry
	for i := range 700 {
		h := admin.Entry{Type: admin.EntryAcquired, At: time.Now(), Name: strconv.Itoa(i)}
		if i%100 == 7 {
			h.Type = admin.EntryLost
		}
		entries = append(entries, h)
	}
	if err := b.AppendLog(bounded(t), admin.Client{}, entries); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{1, 2, 50, 1000} {
		var names, lost []string
		for after := ""; ; {
			page, err := b.ReadLog(bounded(t), admin.LogFilter{Last: time.Hour, After: after, Limit: most})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			if len(page) > most {
				t.Fatalf("got a page of %d, want at most %d", len(page), most)
			}
			for _, h := range page {
				names = append(names, h.Name)
				if h.Type == admin.EntryLost {
					lost = append(lost, h.Name)
				}
				after = h.ID
			}
		}
		if got, want := fmt.Sprint(lost), "[7 107 207 307 407 507 607]"; got != want {
			t.Errorf("pages of %d: got losses of %s, want %s", most, got, want)
		}
		if len(names) < 100 || len(names) > 210 || names[len(names)-1] != "699" {
			t.Errorf("pages of %d: got %d happenings, the last is %s", most, len(names), names[len(names)-1])
		}
	}
	if _, err := b.ReadLog(bounded(t), admin.LogFilter{After: "5-18446744073709551615"}); err != nil {
		t.Errorf("after the last of a millisecond: got %v", err)
	}
}

// Names are bytes.
func TestEventLogOfAnyName(t *testing.T) {
	_, b := startStore(t, nil)
	for _, name := range []string{"a\x00b", "\xff\xfe", strings.Repeat("x", 900), "ü", `{"}`} {
		h := admin.Entry{Type: admin.EntryLost, At: time.Now(), Name: name}
		if err := b.AppendLog(bounded(t), admin.Client{ID: "c", Note: strings.Repeat("n", 5000)}, []admin.Entry{h}); err != nil {
			t.Fatal(err)
		}
		list, err := b.ReadLog(bounded(t), admin.LogFilter{Last: time.Hour})
		if err != nil || len(list) == 0 || list[len(list)-1].Name != name || len(list[0].Note) > 300 {
			t.Errorf("got %+v and error %v, want %q", list, err, name)
		}
	}
}

// What others wrote costs its own entry, and nothing else.
func TestEventLogIsNotBelieved(t *testing.T) {
	server, b := startStore(t, nil)
	long := strings.Repeat("x", 5000)
	for _, what := range []string{
		"", "{", "[]", `{"event":7}`,
		`{"event":"acquired\u001b[2J","ago_ms":-5,"name":"` + long + `","held_ms":-1,"count":-7,"mode":"?","kind":"\u0000"}`,
		`{"event":"lost","ago_ms":9223372036854775807,"held_ms":9223372036854775807,"reason":"` + long + `"}`,
	} {
		server.Do("XADD", eventLogKey, "*", "at", strconv.FormatInt(time.Now().UnixMilli(), 10), "who", `{"id":"a\u001b","note":"`+long+`","pid":1}`, "what", what)
	}
	server.Do("XADD", eventLogKey, "*", "who", `{}`, "what", `{"event":"lost","name":"x"}`)
	if err := b.AppendLog(bounded(t), admin.Client{ID: "c"}, []admin.Entry{{Type: admin.EntryLost, At: time.Now(), Name: "job"}}); err != nil {
		t.Fatal(err)
	}
	list, err := b.ReadLog(bounded(t), admin.LogFilter{Last: time.Hour})
	if err != nil || len(list) != 8 {
		t.Fatalf("got %d and error %v, want 8", len(list), err)
	}
	for i, h := range append(list[:4:4], list[6]) {
		if h.Type != "" || h.ID == "" {
			t.Errorf("nonsense %d: got %+v, want an ID and nothing else", i, h)
		}
	}
	now := time.Now()
	for _, h := range list[4:6] {
		printed := fmt.Sprint(h.Type, h.Name, h.Kind, h.Note, h.Reason, h.Client)
		if strings.ContainsAny(printed, "\x1b\x00") || len(printed) > 2000 || h.At.After(now) || h.HeldFor < 0 || h.Count < 0 {
			t.Errorf("got %+v", h)
		}
	}
	if h := list[7]; h.Name != "job" || h.Type != admin.EntryLost {
		t.Errorf("got %+v, want what is true", h)
	}
}

// A user without the permission to write the event log has his locks, and one warning;
// a user without the permission to read it gets an error that says so.
func TestEventLogRights(t *testing.T) {
	server := redistest.Start(t)
	var log bytes.Buffer
	b := limited(t, server, "~* &* "+leastRights)
	w := audit.New(b, &audit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	l := holdfast.New(b, &holdfast.Options{Observe: w.Observe})
	for range 2 {
		lock, err := l.TryLock(bounded(t), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(lock.Unlock(), w.Flush(bounded(t))); err != nil {
			t.Fatal(err)
		}
	}
	if got := log.String(); strings.Count(got, "event log are missing") != 1 || !strings.Contains(got, "grant the user +xadd") {
		t.Errorf("got %s, want one warning that names the right", got)
	}
	if _, err := b.ReadLog(bounded(t), admin.LogFilter{Last: time.Hour}); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "+xrange") {
		t.Errorf("got error %v, want the server's", err)
	}
	b = limited(t, server, "~* &* +xadd +xrange "+leastRights)
	w = audit.New(b, nil)
	l = holdfast.New(b, &holdfast.Options{Observe: w.Observe})
	lock, err := l.TryLock(bounded(t), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Unlock(), w.Flush(bounded(t))); err != nil {
		t.Fatal(err)
	}
	if list, err := b.ReadLog(bounded(t), admin.LogFilter{Last: time.Hour}); err != nil || len(list) != 2 {
		t.Errorf("got %+v and error %v, want 2", list, err)
	}
}
