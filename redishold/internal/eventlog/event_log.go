// Package eventlog keeps the event log in Redis.
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
	defaultLength = 10_000
	rareShare     = 10                 // a tenth of that: what is rare is kept longer than the rest
	logTTL        = 7 * 24 * time.Hour // of a log that nobody adds to
	defaultPage   = 1000

	// In bytes. A name that is longer is cut off.
	longestName   = 1000
	longestReason = 500
	longestEntry  = 16_000
)

// whoText is a client in the event log.
type clientJSON struct {
	ID string `json:"id"`
	clients.Description
}

// whatText is an entry of the event log. Ago is how long before it was written it
// happened, in ms.
type entryJSON struct {
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

// Append adds entries by a client to a log that keeps about so many, 0 for the default.
func Append(ctx context.Context, c *clients.Clients, most int, by admin.Client, entries []admin.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	who := clientJSON{by.ID, c.Self(clients.Cut(by.Note, clients.LongestReported))}
	most = cmp.Or(most, defaultLength)
	args := []string{strconv.Itoa(most), strconv.Itoa(max(1, most/rareShare)), strconv.FormatInt(logTTL.Milliseconds(), 10), clients.JSON(who)}
	now := time.Now()
	for _, h := range entries {
		prefix := "."
		if h.Type.Rare() {
			prefix = "!"
		}
		args = append(args, prefix+clients.JSON(textOf(h, now)))
	}
	if _, err := c.Call(ctx, wire.Call{Script: c.Script("event_log_add"), Keys: c.Layout.EventLog(), Args: args}); err != nil {
		return logError(c, "add to the event log", "+xadd", err)
	}
	return nil
}

func textOf(h admin.Entry, now time.Time) entryJSON {
	text := entryJSON{
		Event: string(h.Type), Ago: max(0, now.Sub(h.At).Milliseconds()), Name: clients.Cut(h.Name, longestName),
		Kind: string(h.Kind), Token: h.Token,
		Waited: h.Waited.Milliseconds(), Held: h.HeldFor.Milliseconds(), Left: h.Left.Milliseconds(),
		Owner: clients.Cut(h.Owner, clients.LongestReported), Reason: clients.Cut(h.Reason, longestReason), Count: h.Count,
	}
	if h.Kind != "" {
		text.Mode = h.Mode.String()
	}
	if !utf8.ValidString(h.Name) {
		text.Name, text.Bytes = "", []byte(h.Name[:min(len(h.Name), longestName)])
	}
	return text
}

// Read returns entries, oldest first.
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

// logError says what failed, and which right it takes if that is missing.
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

// entry is one of a stream.
type streamEntry struct {
	order     [2]uint64
	id        string
	time      string // by the server's clock, in ms; "" of an entry that is somebody else's
	who, what string
}

// placeOf reads an id: a time in ms and a number.
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

// merged returns the first of two pages of at most so many entries, each once. Where
// a page is full, what comes after its last entry is not known yet.
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

// decode reads an entry, when the server's clock stood at now. What others wrote
// may be nonsense: it then has no Type, but an ID to go on from.
func (e streamEntry) decode(now int64, read time.Time) admin.Entry {
	h := admin.Entry{ID: e.id}
	var client clientJSON
	var logged entryJSON
	written, err := strconv.ParseInt(e.time, 10, 64)
	if err != nil || len(e.who)+len(e.what) > longestEntry ||
		json.Unmarshal([]byte(e.who), &client) != nil || json.Unmarshal([]byte(e.what), &logged) != nil {
		return h
	}
	h.Type, h.At = admin.EntryType(clients.Printable(logged.Event)), read.Add(-clients.Age(now, written, logged.Ago))
	h.Client = client.Client(clients.Printable(client.ID))
	h.Note = clients.NameOf(h.Client)
	h.Name = clients.Cut(cmp.Or(logged.Name, string(logged.Bytes)), longestName+len("…")) // what was cut stays as it is
	h.Kind, h.Mode, h.Token = admin.Kind(clients.Printable(logged.Kind)), clients.ModeNamed(logged.Mode), logged.Token
	h.Waited, h.HeldFor, h.Left = clients.Age(logged.Waited, 0, 0), clients.Age(logged.Held, 0, 0), clients.Age(logged.Left, 0, 0)
	h.Owner, h.Reason, h.Count = clients.Printable(logged.Owner), clients.Printable(logged.Reason), max(0, logged.Count)
	return h
}
