// Package eventlog writes and reads the event log in Redis.
package eventlog

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
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	defaultLength = 10_000             // default number of entries of the log
	rareShare     = 10                 // the stream of rare entries has a tenth as many entries as the log
	logTTL        = 7 * 24 * time.Hour // how long the log is kept after its last entry
	defaultPage   = 1000               // default number of entries that one Read returns

	// These limits are in bytes. A longer name or reason is cut off. A longer entry is not
	// decoded.
	longestName   = 1000
	longestReason = 500
	longestEntry  = 16_000
)

// clientJSON is a client in the event log.
type clientJSON struct {
	ID string `json:"id"`
	clients.Description
}

// entryJSON is an entry of the event log. The field Ago is the age of the event in ms, at the
// time when the entry was written.
type entryJSON struct {
	Event  string `json:"event"`
	Ago    int64  `json:"ago_ms"`
	Name   string `json:"name,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"` // the name, if it is not UTF-8
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

// Append adds the entries of a client to the log. The parameter `most` is the approximate
// length of the log; 0 means the default.
func Append(ctx context.Context, c *clients.Clients, most int, by admin.Client, entries []admin.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	who := clientJSON{by.ID, c.Self(clients.Cut(by.Note, clients.LongestReported))}
	most = cmp.Or(most, defaultLength)
	args := []string{strconv.Itoa(most), strconv.Itoa(max(1, most/rareShare)), strconv.FormatInt(logTTL.Milliseconds(), 10), clients.JSON(who)}
	now := time.Now()
	for _, e := range entries {
		prefix := "."
		if e.Type.Rare() {
			prefix = "!"
		}
		args = append(args, prefix+clients.JSON(textOf(e, now)))
	}
	if _, err := c.Call(ctx, wire.Call{Script: c.Script("event_log_add"), Keys: c.Layout.EventLog(), Args: args}); err != nil {
		return logError(c, "add to the event log", "+xadd", err)
	}
	return nil
}

func textOf(e admin.Entry, now time.Time) entryJSON {
	text := entryJSON{
		Event: string(e.Type), Ago: max(0, now.Sub(e.At).Milliseconds()), Name: clients.Cut(e.Name, longestName),
		Kind: string(e.Kind), Token: e.Token,
		Waited: e.Waited.Milliseconds(), Held: e.HeldFor.Milliseconds(), Left: e.Left.Milliseconds(),
		Owner: clients.Cut(e.Owner, clients.LongestReported), Reason: clients.Cut(e.Reason, longestReason), Count: e.Count,
	}
	if e.Kind != "" {
		text.Mode = e.Mode.String()
	}
	if !utf8.ValidString(e.Name) {
		text.Name, text.Bytes = "", []byte(e.Name[:min(len(e.Name), longestName)])
	}
	return text
}

// Read returns entries of the log, oldest first.
func Read(ctx context.Context, c *clients.Clients, f admin.LogFilter) ([]admin.Entry, error) {
	if _, ok := parseID(f.After); f.After != "" && !ok {
		return nil, errors.New("redis: not an ID of the event log")
	}
	most := cmp.Or(max(f.Limit, 0), defaultPage)
	reply, err := c.Call(ctx, wire.Call{
		Script: c.Script("event_log_read"),
		Keys:   c.Layout.EventLog(),
		Args:   []string{f.After, strconv.FormatInt(max(0, f.Last.Milliseconds()), 10), strconv.Itoa(most)},
	})
	if err != nil {
		return nil, logError(c, "read the event log", "+xrange", err)
	}
	r := wire.Read(reply)
	now, bad := strconv.ParseInt(r.Text(), 10, 64)
	all, ok1 := parsePage(r.Texts())
	rare, ok2 := parsePage(r.Texts())
	if bad != nil || !ok1 || !ok2 || !r.Done() {
		return nil, wire.BadReply("event_log_read", reply)
	}
	var list []admin.Entry
	read := time.Now()
	for _, e := range merge(all, rare, most) {
		list = append(list, e.decode(now, read))
	}
	return list, nil
}

// logError returns the error for an action on the event log. The parameter `does` describes the
// action, and `err` is the error of its call. If the user lacks a permission, the result names
// the parameter `right`, the ACL rule that allows the command.
func logError(c *clients.Clients, does, right string, err error) error {
	key := c.Layout.EventLog()[0]
	var refused *wire.ServerError
	if !errors.As(c.Layout.Classify(layout.Keys{Name: key, Lock: key}, err), &refused) {
		return fmt.Errorf("redis: %s: %w", does, err)
	}
	refused.Does = fmt.Sprintf("redis: %s at %q", does, key)
	if refused.Advice != "" {
		refused.Advice = "grant the user " + right + " and the keys " + c.Layout.Prefix + "holdfast:*"
	}
	return refused
}

// streamEntry is an entry of a stream, as it was read.
type streamEntry struct {
	order     [2]uint64 // the two parts of the id, by which entries are ordered
	id        string
	time      string // when the entry was written, by the server's clock in ms; "" for an entry of another program
	who, what string
}

// parseID returns the two parts of an id, by which ids are ordered: a time in ms and a number.
func parseID(id string) (at [2]uint64, ok bool) {
	ms, number, ok := strings.Cut(id, "-")
	var bad1, bad2 error
	at[0], bad1 = strconv.ParseUint(ms, 10, 64)
	at[1], bad2 = strconv.ParseUint(number, 10, 64)
	return at, ok && bad1 == nil && bad2 == nil
}

func (e streamEntry) compare(o streamEntry) int { return slices.Compare(e.order[:], o.order[:]) }

func parsePage(fields []string) (page []streamEntry, ok bool) {
	ok = len(fields)%4 == 0
	for ; ok && len(fields) > 0; fields = fields[4:] {
		e := streamEntry{id: fields[0], time: fields[1], who: fields[2], what: fields[3]}
		e.order, ok = parseID(e.id)
		page = append(page, e)
	}
	return page, ok
}

// merge returns the entries of two pages in order, each entry once, and at most `most` entries.
// If a page is full, the later entries of its stream are unknown. So merge leaves out all
// entries of the other page that are after the last entry of the full page.
func merge(a, b []streamEntry, most int) []streamEntry {
	list := slices.SortedFunc(slices.Values(slices.Concat(a, b)), streamEntry.compare)
	list = slices.CompactFunc(list, func(x, y streamEntry) bool { return x.order == y.order })
	for _, page := range [][]streamEntry{a, b} {
		if len(page) >= most {
			i, _ := slices.BinarySearchFunc(list, page[len(page)-1], streamEntry.compare)
			list = list[:min(i+1, len(list))]
		}
	}
	return list[:min(most, len(list))]
}

// decode returns the Entry of s. The parameter `read` is the local time at which s was read, and
// `now` is the server's time at that moment, in ms. If s is not valid, for example because
// another program has written it, the Entry has only its ID. The caller needs the ID to read the
// entries after this one.
func (s streamEntry) decode(now int64, read time.Time) admin.Entry {
	e := admin.Entry{ID: s.id}
	var client clientJSON
	var logged entryJSON
	written, err := strconv.ParseInt(s.time, 10, 64)
	if err != nil || len(s.who)+len(s.what) > longestEntry ||
		json.Unmarshal([]byte(s.who), &client) != nil || json.Unmarshal([]byte(s.what), &logged) != nil {
		return e
	}
	e.Type, e.At = admin.EntryType(clients.Printable(logged.Event)), read.Add(-clients.Age(now, written, logged.Ago))
	e.Client = client.Client(clients.Printable(client.ID))
	e.Note = clients.NameOf(e.Client)
	e.Name = clients.Cut(cmp.Or(logged.Name, string(logged.Bytes)), longestName+len("…")) // with room for the "…" of a name that was cut when it was written
	e.Kind, e.Mode, e.Token = admin.Kind(clients.Printable(logged.Kind)), clients.ModeNamed(logged.Mode), logged.Token
	e.Waited, e.HeldFor, e.Left = clients.Age(logged.Waited, 0, 0), clients.Age(logged.Held, 0, 0), clients.Age(logged.Left, 0, 0)
	e.Owner, e.Reason, e.Count = clients.Printable(logged.Owner), clients.Printable(logged.Reason), max(0, logged.Count)
	return e
}
