// Package clients says who the clients of a store are: it registers those of this
// process, reports what they hold and wait for, and looks others up.
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

// AsideLimit bounds calls that only add something for people. In a cluster they
// go to another node than the lock, and its trouble must not become the lock's.
const InfoTimeout = 250 * time.Millisecond

// Access is what those who serve people need of the rest of a backend.
type Access struct {
	Layout *layout.Layout
	Log    *slog.Logger
	Do     func(context.Context, ...wire.Call) []wire.Result
	Call   func(context.Context, wire.Call) (any, error)
	Info   func(context.Context) (wire.Server, error)
	Script func(name string) *wire.Script
}

// Clients are the clients of a store.
type Clients struct {
	Access

	self         Description
	names, stems registrar // stems are those of clients that take permits
	waits        sync.Map  // by client: the names that it was noted to wait for, a map[string]bool
	directory    directory
}

// New returns the clients of the store that is reached by a.
func New(a Access) *Clients {
	return &Clients{
		Access: a,
		self:   describeProcess(),
		names:  registrar{written: map[string]*registration{}},
		stems:  registrar{written: map[string]*registration{}},
		directory: directory{
			known: map[string]knownClient{}, holderKnownUntil: map[string]time.Time{}, pending: map[string]bool{},
		},
	}
}

// Description is what a client says of itself, for operators.
type Description struct {
	Note    string `json:"note"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Started string `json:"started,omitempty"` // RFC 3339
}

func describeProcess() Description {
	d := Description{PID: os.Getpid(), Started: time.Now().UTC().Format(time.RFC3339)}
	d.Host, _ = os.Hostname()
	if len(os.Args) > 0 {
		d.Program = filepath.Base(os.Args[0])
	}
	return d
}

// Self describes this process, with a note.
func (s *Clients) Self(note string) Description {
	d := s.self
	d.Note = note
	return d
}

// Client is d for programs.
func (d Description) Client(uuid string) admin.Client {
	started, _ := time.Parse(time.RFC3339, d.Started)
	return admin.Client{
		ID: uuid, Library: "holdfast",
		Program: Printable(d.Program), Host: Printable(d.Host), PID: d.PID,
		Note: Printable(d.Note), Started: started,
	}
}

// NameOf is who a client of Holdfast is, for people; "" for another.
func NameOf(c admin.Client) string {
	if c.Note != "" || c.Program == "" {
		return Printable(c.Note)
	}
	return Printable(c.Program + "@" + c.Host + ":" + strconv.Itoa(c.PID))
}

// describe says for people who owner is, and for how long it has been holding, 0 if
// it has not said. What a client has begun to hold since it was asked for last is not
// known yet. Of a client that is not known either no more is said than which it is.
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

// Printable cuts what another program wrote down to what a terminal can show.
func Printable(s string) string {
	const limit = 200
	return Cut(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s), limit)
}

// Cut returns s, or its first bytes if it has more than most.
func Cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// JSON returns v as an object.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("redishold: " + err.Error()) // cannot happen: strings and numbers only
	}
	return string(text)
}

// Age is how old something is that was so many ms old when the server's clock
// stood at then; now it stands at now. What others wrote may be nonsense.
func Age(now, then, ms int64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	old := float64(now) - float64(then) + float64(ms)
	if old > float64(most/time.Millisecond) {
		return most
	}
	return max(0, time.Duration(old)*time.Millisecond)
}

// Force notifies the client of owner that its hold was ended, and the first in the queue
// of a fair lock at p, who has a channel of its own. The hold is over already: where
// that fails, they look within their usual time.
func (s *Clients) NotifyForced(ctx context.Context, k layout.Keys, owner string) {
	server, err := s.Info(ctx)
	var calls []wire.Call
	if uuid := layout.ClientOf(owner); uuid != "" {
		// Every node of a cluster passes PUBLISH on.
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
