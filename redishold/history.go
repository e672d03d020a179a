package redishold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var _ driver.Historian = (*Backend)(nil)

const (
	historyLength = 10_000
	historyLife   = 7 * 24 * time.Hour // of a history that nobody adds to
	historyPage   = 1000
	longestReason = 500 // in bytes
)

// chronicle is what a Backend needs for the history. It is made when first used.
type chronicle struct {
	once      sync.Once
	add, read *Script
}

func (c *chronicle) load() *chronicle {
	c.once.Do(func() { c.add, c.read = loadScript("history_add"), loadScript("history_read") })
	return c
}

// whoText is a client in the history.
type whoText struct {
	ID string `json:"id"`
	description
}

// whatText is an entry of the history. Ago is how long before it was told it
// happened, in ms.
type whatText struct {
	Event  string `json:"event"`
	Ago    int64  `json:"ago_ms"`
	Name   string `json:"name,omitempty"`
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

// history returns the key of the history.
func (l *layout) history() string { return l.prefix + "holdfast:history" }

// Record adds what a client did to a stream that keeps the latest
// Options.HistoryLength happenings, and ends a week after the last. It is one call.
func (b *Backend) Record(ctx context.Context, c driver.Chapter) error {
	if b.invalid != nil {
		return b.invalid
	}
	who := whoText{ID: c.Client, description: b.clients.self}
	who.Note = c.Note
	length := historyLength
	if b.options.HistoryLength > 0 {
		length = b.options.HistoryLength
	}
	args := []string{strconv.Itoa(length), strconv.FormatInt(historyLife.Milliseconds(), 10), object(who)}
	now := time.Now()
	for _, h := range c.Happenings {
		args = append(args, object(what(h, now)))
	}
	_, err := b.call(ctx, Call{Script: b.chronicle.load().add, Keys: []string{b.layout.history()}, Args: args})
	if err != nil {
		return historyError("add to the history", "+xadd", err)
	}
	return nil
}

func what(h driver.Happening, now time.Time) whatText {
	reason := h.Reason
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "") + "…"
	}
	mode := ""
	if h.Kind != "" {
		mode = h.Mode.String()
	}
	return whatText{
		Event: string(h.Event), Ago: max(0, now.Sub(h.At).Milliseconds()), Name: cutText(h.Name),
		Kind: string(h.Kind), Mode: mode, Token: h.Token,
		Waited: h.Waited.Milliseconds(), Held: h.Held.Milliseconds(), Left: h.Left.Milliseconds(),
		Owner: h.Owner, Reason: reason, Count: h.Count,
	}
}

// History returns what clients with the same Options.Prefix did. A user who is to
// read it needs the right to XRANGE.
func (b *Backend) History(ctx context.Context, o driver.HistoryOptions) ([]driver.Happening, error) {
	if b.invalid != nil {
		return nil, b.invalid
	}
	most := historyPage
	if o.Most > 0 {
		most = o.Most
	}
	first, err := after(o.After)
	if err != nil {
		return nil, err
	}
	reply, err := b.call(ctx, Call{
		Script: b.chronicle.load().read,
		Keys:   []string{b.layout.history()},
		Args:   []string{first, strconv.FormatInt(max(0, o.Past.Milliseconds()), 10), strconv.Itoa(most)},
	})
	if err != nil {
		return nil, historyError("read the history", "+xrange", err)
	}
	entries, ok := texts(reply)
	if !ok || len(entries)%3 != 1 {
		return nil, badReply(b.chronicle.read.Name(), reply)
	}
	now, _ := strconv.ParseInt(entries[0], 10, 64)
	var list []driver.Happening
	for read, entries := time.Now(), entries[1:]; len(entries) > 0; entries = entries[3:] {
		list = append(list, happening(entries[0], entries[1], entries[2], now, read))
	}
	return list, nil
}

// historyError says what failed, and which right it takes if that is missing.
func historyError(does, right string, err error) error {
	var reply *ReplyError
	if errors.As(err, &reply) {
		if m := meaningOf(reply.Text); m == meansNoRight || m == meansNoRightInside {
			return fmt.Errorf("redis: %s: the user needs %s and the key holdfast:history behind the prefix: %w", does, right, err)
		}
	}
	return fmt.Errorf("redis: %s: %w", does, err)
}

// after returns the id that follows id: an id is two numbers.
func after(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	ms, number, ok := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	n, err2 := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || err2 != nil || n+1 == 0 {
		return "", errors.New("redis: not an ID of the history")
	}
	return ms + "-" + strconv.FormatUint(n+1, 10), nil
}

// happening reads an entry, when the server's clock stood at now. What others wrote
// may be nonsense: it then has no Event, but an ID to go on from.
func happening(id, who, what string, now int64, read time.Time) driver.Happening {
	h := driver.Happening{ID: id}
	var client whoText
	var said whatText
	if json.Unmarshal([]byte(who), &client) != nil || json.Unmarshal([]byte(what), &said) != nil {
		return h
	}
	ms, _, _ := strings.Cut(id, "-")
	told, _ := strconv.ParseInt(ms, 10, 64)
	h.Event = driver.Event(printable(said.Event))
	h.At = read.Add(-age(now, told, said.Ago))
	h.Client = client.client(printable(client.ID))
	client.description = description{Note: h.Client.Note, Program: h.Client.Program, Host: h.Client.Host, PID: h.Client.PID}
	h.Note = client.String()
	h.Name, h.Kind, h.Mode, h.Token = cutText(said.Name), driver.Kind(printable(said.Kind)), modeNamed(said.Mode), said.Token
	h.Waited, h.Held, h.Left = length(said.Waited), length(said.Held), length(said.Left)
	h.Owner, h.Reason, h.Count = printable(said.Owner), printable(said.Reason), max(0, said.Count)
	return h
}

func modeNamed(name string) driver.Mode {
	for _, m := range []driver.Mode{driver.Shared, driver.Permit} {
		if m.String() == name {
			return m
		}
	}
	return driver.Exclusive
}

// length is ms as a duration, within reason.
func length(ms int64) time.Duration { return age(ms, 0, 0) }
