// Package clients registers the clients of this process in the store, and looks up the
// registrations of other clients. For operators, it also reports which locks the clients of this
// process hold or wait for.
package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// InfoTimeout limits calls that are only for operators. In a cluster such a call may go to
// another node than the calls for the lock. A failure of that node must not delay the lock.
const InfoTimeout = 250 * time.Millisecond

// nowTimeout limits a look-up for which the caller of a try waits. The server has just answered
// that try, and has the registration, too. So the limit only matters if that server fails now, or
// is very slow.
const nowTimeout = time.Second

// Access has the parts of a Backend that this package and package listing use.
type Access struct {
	Layout *layout.Layout
	Log    *slog.Logger
	Do     func(context.Context, ...wire.Call) []wire.Result
	Call   func(context.Context, wire.Call) (any, error)
	Info   func(context.Context) (wire.Server, error)
	Script func(name string) *wire.Script
}

// Clients registers and looks up the clients of one store.
type Clients struct {
	Access

	self         Description
	names, stems registrar // stems is for registrations by stem, of clients that take permits
	waits        sync.Map  // by client: the names in the waits of its last report, as a map[string]bool
	directory    directory
}

// New returns the Clients of the store to which the given Access leads.
func New(a Access) *Clients {
	return &Clients{
		Access: a,
		self:   describeProcess(),
		names:  registrar{written: map[string]*registration{}},
		stems:  registrar{written: map[string]*registration{}},
		directory: directory{
			known: map[string]knownClient{}, pending: map[string]bool{},
		},
	}
}

// Description describes a client for operators. It is a part of the registration of the client.
type Description struct {
	Note    string `json:"note"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Started string `json:"started,omitempty"` // when the process started, in the format of RFC 3339
}

func describeProcess() Description {
	d := Description{PID: os.Getpid(), Started: time.Now().UTC().Format(time.RFC3339)}
	d.Host, _ = os.Hostname()
	if len(os.Args) > 0 {
		d.Program = filepath.Base(os.Args[0])
	}
	return d
}

// Self returns the Description of this process, with a note.
func (s *Clients) Self(note string) Description {
	d := s.self
	d.Note = note
	return d
}

// Client returns d as an admin.Client with the given UUID as its ID.
func (d Description) Client(uuid string) admin.Client {
	started, _ := time.Parse(time.RFC3339, d.Started)
	return admin.Client{
		ID: uuid, Library: "holdfast",
		Program: Printable(d.Program), Host: Printable(d.Host), PID: d.PID,
		Note: Printable(d.Note), Started: started,
	}
}

// NameOf returns the text that names a client of Holdfast to operators. The text is the note of
// the client, or its program, host and process. For any other client, NameOf returns "".
func NameOf(c admin.Client) string {
	if c.Note != "" || c.Program == "" {
		return Printable(c.Note)
	}
	return Printable(c.Program + "@" + c.Host + ":" + strconv.Itoa(c.PID))
}

// describe returns the text that names an owner to operators. The result `held` is how long the
// owner has held the lock. `held` is 0 if that time is unknown, for example because the hold is
// newer than the last look-up of the client. The parameter `known` is false if the client was
// not looked up yet; then the text has only the UUID of the client.
func (s *Clients) describe(owner string, client knownClient, known bool) (who string, held time.Duration) {
	owner = strings.TrimSuffix(strings.TrimSuffix(owner, layout.WriteField), driver.KeptOwner)
	if hold, ok := client.holds[owner]; ok {
		held = time.Since(hold.since)
	}
	uuid, number, _ := layout.CutOwner(owner)
	_, err := strconv.ParseInt(number, 10, 64)
	name := NameOf(client.client)
	switch {
	case name != "":
		return name, held
	case err != nil || !layout.IsUUID(uuid) || s.Layout.Name != "":
		return Printable(owner), 0
	case !known || client.registered():
		return "client " + uuid[:8] + "…", 0
	default:
		return "Redisson client " + uuid[:8] + "… thread " + number, 0
	}
}

// Printable returns s without the characters that are not printable, and cuts the result to 200
// bytes. It is for texts that other programs have written.
func Printable(s string) string {
	const limit = 200
	return Cut(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s), limit)
}

// Cut returns s if it has at most `most` bytes, otherwise its first bytes and "…".
func Cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// JSON returns v as an object in JSON.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("redishold: " + err.Error()) // cannot happen: strings and numbers only
	}
	return string(text)
}

// Age returns the age of an event at the server time `now`. At the server time `then`, the event
// was `ms` milliseconds old. Both times are in ms. The result is between 0 and a hundred years,
// even if the arguments make no sense, because they are from other programs.
func Age(now, then, ms int64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	old := float64(now) - float64(then) + float64(ms)
	if old > float64(most/time.Millisecond) {
		return most
	}
	return max(0, time.Duration(old)*time.Millisecond)
}

// NotifyForced notifies the client of `owner` that ForceUnlock has ended the hold of this owner.
// If the lock is a fair lock, NotifyForced also wakes the first waiter in the queue, because
// waiters in a queue do not listen on the channel of the lock. If a notification fails, the
// client learns of the end at its next renewal, and the waiter at its next try.
func (s *Clients) NotifyForced(ctx context.Context, k layout.Keys, owner string) {
	server, err := s.Info(ctx)
	var calls []wire.Call
	if uuid := layout.ClientOf(owner); uuid != "" {
		// In a cluster any node passes a PUBLISH on to the others.
		args := []string{s.Layout.Registration(uuid), owner, "PUBLISH"}
		calls = append(calls, wire.Call{Script: s.Script("publish"), Args: args})
	}
	if s.Layout.Name == "" {
		queue, _, _ := s.Layout.Queue(k)
		args := append([]string{k.Channel + ":"}, server.PublishWith()...)
		calls = append(calls, wire.Call{Script: s.Script("fair_wake"), Keys: []string{queue}, Args: args})
	}
	if len(calls) == 0 || err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, InfoTimeout)
	defer cancel()
	for _, result := range s.Do(ctx, calls...) {
		err = cmp.Or(err, result.Err)
	}
	if err != nil {
		s.Log.Debug("redis: say that a lock was broken", "name", k.Name, "error", err)
	}
}
