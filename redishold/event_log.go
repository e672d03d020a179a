package redishold

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	logLength = 10_000
	logRare   = 10                 // a tenth of that: what is rare is kept longer than the rest
	logLife   = 7 * 24 * time.Hour // of a log that nobody adds to
	logPage   = 1000

	// In bytes. A name that is longer is cut off.
	longestTold   = 1000
	longestReason = 500
	longestEntry  = 16_000
)

// whoText is a client in the event log.
type whoText struct {
	ID string `json:"id"`
	description
}

// whatText is an entry of the event log. Ago is how long before it was told it
// happened, in ms.
type whatText struct {
	Event  string `json:"event"`
	Ago    int64  `json:"ago_ms"`
	Name   string `json:"name,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"` // a name that is not UTF-8
	Kind   string `json:"kind,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Token  uint64 `json:"token,omitempty"`
	Waited int64  `json:"waited_ms,omitempty"`
	Held   int64  `json:"held_ms,omitempty"`
	Left   int64  `json:"left_ms,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Reason string `json:"reason,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// eventLog returns the keys of the event log, which are in one slot.
func (l *layout) eventLog() []string {
	key := l.prefix + "holdfast:{history}"
	if strings.Contains(l.prefix, "{") {
		key = l.prefix + "holdfast:history"
	}
	return []string{key, key + ":rare"}
}

// AppendLog adds entries to a stream that keeps the latest Options.LogLength of them,
// and ends a week after the last. It is one call.
// Losses and what else is rare stand in a second stream too, where the others do
// not crowd them out.
func (b *Backend) AppendLog(ctx context.Context, by admin.Client, entries []admin.Entry) error {
	if b.invalid != nil || len(entries) == 0 {
		return b.invalid
	}
	who := whoText{ID: by.ID, description: b.clients.self}
	who.Note = cutText(by.Note)
	most := cmp.Or(b.options.LogLength, logLength)
	args := []string{strconv.Itoa(most), strconv.Itoa(max(1, most/logRare)), strconv.FormatInt(logLife.Milliseconds(), 10), object(who)}
	now := time.Now()
	for _, h := range entries {
		mark := "."
		if h.Type.Rare() {
			mark = "!"
		}
		args = append(args, mark+object(textOf(h, now)))
	}
	_, err := b.call(ctx, Call{Script: b.forPeople.load().addLog, Keys: b.layout.eventLog(), Args: args})
	if err != nil {
		return b.logError("add to the event log", "+xadd", err)
	}
	return nil
}

func textOf(h admin.Entry, now time.Time) whatText {
	text := whatText{
		Event: string(h.Type), Ago: max(0, now.Sub(h.At).Milliseconds()), Name: cutTo(h.Name, longestTold),
		Kind: string(h.Kind), Token: h.Token,
		Waited: h.Waited.Milliseconds(), Held: h.HeldFor.Milliseconds(), Left: h.Left.Milliseconds(),
		Owner: cutText(h.Owner), Reason: cutTo(h.Reason, longestReason), Count: h.Count,
	}
	if h.Kind != "" {
		text.Mode = h.Mode.String()
	}
	if !utf8.ValidString(h.Name) {
		text.Name, text.Bytes = "", []byte(h.Name[:min(len(h.Name), longestTold)])
	}
	return text
}

// ReadLog returns what clients with the same Options.Prefix did. A user who is to
// read it needs the right to XRANGE.
func (b *Backend) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if b.invalid != nil {
		return nil, b.invalid
	}
	if _, ok := placeOf(f.After); f.After != "" && !ok {
		return nil, errors.New("redis: not an ID of the event log")
	}
	most := cmp.Or(max(f.Most, 0), logPage)
	reply, err := b.call(ctx, Call{
		Script: b.forPeople.load().readLog,
		Keys:   b.layout.eventLog(),
		Args:   []string{f.After, strconv.FormatInt(max(0, f.Past.Milliseconds()), 10), strconv.Itoa(most)},
	})
	if err != nil {
		return nil, b.logError("read the event log", "+xrange", err)
	}
	now, all, rare, ok := parsePages(reply)
	if !ok {
		return nil, badReply(b.forPeople.readLog.Name(), reply)
	}
	var list []admin.Entry
	read := time.Now()
	for _, e := range merged(all, rare, most) {
		list = append(list, e.decode(now, read))
	}
	return list, nil
}

// logError says what failed, and which right it takes if that is missing.
func (b *Backend) logError(does, right string, err error) error {
	key := b.layout.eventLog()[0]
	var refused *serverError
	if !errors.As(b.classify(place{name: key, lock: key}, err), &refused) {
		return fmt.Errorf("redis: %s: %w", does, err)
	}
	refused.does = fmt.Sprintf("redis: %s at %q", does, key)
	if refused.advice != "" {
		refused.advice = "grant the user " + right + " and the keys " + b.layout.prefix + "holdfast:*"
	}
	return refused
}

// entry is one of a stream.
type entry struct {
	at        [2]uint64
	id        string
	told      string // by the server's clock, in ms; "" of an entry that is somebody else's
	who, what string
}

// placeOf reads an id: a time in ms and a number.
func placeOf(id string) (at [2]uint64, ok bool) {
	ms, number, ok := strings.Cut(id, "-")
	var bad1, bad2 error
	at[0], bad1 = strconv.ParseUint(ms, 10, 64)
	at[1], bad2 = strconv.ParseUint(number, 10, 64)
	return at, ok && bad1 == nil && bad2 == nil
}

func (e entry) compare(o entry) int { return slices.Compare(e.at[:], o.at[:]) }

// parsePages reads the reply of history_read.
func parsePages(reply any) (now int64, all, rare []entry, ok bool) {
	r := reading{list: asList(reply), ok: true}
	now, err := strconv.ParseInt(r.text(), 10, 64)
	all, ok1 := parsePage(r.take())
	rare, ok2 := parsePage(r.take())
	return now, all, rare, err == nil && ok1 && ok2 && r.ok && len(r.list) == 0
}

func parsePage(reply any) ([]entry, bool) {
	fields, ok := texts(reply)
	if !ok || len(fields)%4 != 0 {
		return nil, false
	}
	var page []entry
	for f := range slices.Chunk(fields, 4) {
		at, ok := placeOf(f[0])
		if !ok {
			return nil, false
		}
		page = append(page, entry{at, f[0], f[1], f[2], f[3]})
	}
	return page, true
}

// merged returns the first of two pages of at most so many entries, each once. Where
// a page is full, what comes after its last entry is not known yet.
func merged(a, b []entry, most int) []entry {
	list := slices.SortedFunc(slices.Values(slices.Concat(a, b)), entry.compare)
	list = slices.CompactFunc(list, func(x, y entry) bool { return x.at == y.at })
	for _, page := range [][]entry{a, b} {
		if len(page) < most {
			continue
		}
		if i, found := slices.BinarySearchFunc(list, page[len(page)-1], entry.compare); found {
			list = list[:i+1]
		}
	}
	return list[:min(most, len(list))]
}

// decode reads an entry, when the server's clock stood at now. What others wrote
// may be nonsense: it then has no Type, but an ID to go on from.
func (e entry) decode(now int64, read time.Time) admin.Entry {
	h := admin.Entry{ID: e.id}
	var client whoText
	var said whatText
	if len(e.who)+len(e.what) > longestEntry || json.Unmarshal([]byte(e.who), &client) != nil || json.Unmarshal([]byte(e.what), &said) != nil {
		return h
	}
	told, err := strconv.ParseInt(e.told, 10, 64)
	if err != nil {
		return h
	}
	h.Type, h.At = admin.EntryType(printable(said.Event)), read.Add(-age(now, told, said.Ago))
	h.Client = client.client(printable(client.ID))
	h.Note = nameOf(h.Client)
	h.Name, h.Kind, h.Mode, h.Token = said.Name, admin.Kind(printable(said.Kind)), modeNamed(said.Mode), said.Token
	if h.Name == "" {
		h.Name = string(said.Bytes)
	}
	if len(h.Name) > longestTold+len("…") {
		h.Name = cutTo(h.Name, longestTold)
	}
	h.Waited, h.HeldFor, h.Left = millisAge(said.Waited), millisAge(said.Held), millisAge(said.Left)
	h.Owner, h.Reason, h.Count = printable(said.Owner), printable(said.Reason), max(0, said.Count)
	return h
}

// millisAge is ms as a duration, within reason.
func millisAge(ms int64) time.Duration { return age(ms, 0, 0) }
