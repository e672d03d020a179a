package main

import (
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
)

// jsonVersion is raised when a field changes its meaning or goes away, not when
// one is added.
const jsonVersion = 1

// recordJSON is a admin.Record as programs read it. Times are milliseconds; a
// lease that does not end is -1. The lease of a name is that of its holds, of
// several the one that ends first; where there is none, it is for how long the
// store keeps the name.
type recordJSON struct {
	Version   int          `json:"v"`
	Name      string       `json:"name"`
	NameBytes []byte       `json:"name_base64,omitempty"` // where it is no UTF-8
	Kind      string       `json:"kind"`                  // "" for a name that is free
	Held      int          `json:"held"`
	Holds     []holdJSON   `json:"holds"`
	Waiting   int          `json:"waiting"`
	Waiters   []waiterJSON `json:"waiters"`
	Listeners *int         `json:"listeners,omitempty"` // absent if the store does not tell
	Permits   *int         `json:"permits,omitempty"`
	Free      *int         `json:"free,omitempty"`
	Count     *int64       `json:"count,omitempty"`
	LeaseMS   int64        `json:"lease_ms"`
}

type holdJSON struct {
	Owner   string     `json:"owner"`
	Who     string     `json:"who"` // for people
	Note    string     `json:"note,omitempty"`
	Mode    string     `json:"mode"`
	Count   int        `json:"count"`
	Token   uint64     `json:"token,omitempty"`
	LeaseMS int64      `json:"lease_ms"`
	HeldMS  int64      `json:"held_ms,omitempty"`
	Client  clientJSON `json:"client"`
}

type waiterJSON struct {
	Owner   string     `json:"owner"`
	Who     string     `json:"who"`
	Mode    string     `json:"mode"`
	LeaseMS int64      `json:"lease_ms"`
	Client  clientJSON `json:"client"`
}

// waitJSON is a client that waits without a place in the queue.
type waitJSON struct {
	Who      string     `json:"who"`
	Mode     string     `json:"mode"`
	WaitedMS int64      `json:"waited_ms"`
	Count    int        `json:"count"` // how many of its goroutines wait
	Client   clientJSON `json:"client"`
}

func waitsOf(d admin.Detail) (waits []waitJSON) {
	for _, w := range d.Waits {
		waits = append(waits, waitJSON{
			Who: person("", w.Client.Note, w.Client), Mode: w.Mode.String(),
			WaitedMS: w.Waited.Milliseconds(), Count: w.Count, Client: clientOf(w.Client),
		})
	}
	return waits
}

type clientJSON struct {
	ID      string     `json:"id,omitempty"`
	Library string     `json:"library,omitempty"`
	Program string     `json:"program,omitempty"`
	Host    string     `json:"host,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Note    string     `json:"note,omitempty"`
	Started *time.Time `json:"started,omitempty"`
}

func recordOf(r admin.Record) recordJSON {
	j := recordJSON{
		Version: jsonVersion, Name: r.Name, Kind: string(r.Kind), Held: r.Holders, Waiting: r.Waiting,
		Holds: []holdJSON{}, Waiters: []waiterJSON{}, LeaseMS: leaseOf(lease(r)),
	}
	if !utf8.ValidString(r.Name) {
		j.NameBytes = []byte(r.Name)
	}
	if r.Listeners >= 0 {
		j.Listeners = &r.Listeners
	}
	switch r.Kind {
	case admin.KindSemaphore:
		j.Permits, j.Free = &r.Permits, &r.Free
	case admin.KindCounter, admin.KindLatch:
		j.Count = &r.Count
	}
	for _, h := range r.Holds {
		j.Holds = append(j.Holds, holdOf(h))
	}
	for _, w := range r.Waiters {
		j.Waiters = append(j.Waiters, waiterJSON{
			Owner: w.Owner, Who: person(w.Owner, w.Note, w.Client), Mode: w.Mode.String(),
			LeaseMS: leaseOf(w.Remaining), Client: clientOf(w.Client),
		})
	}
	return j
}

// lease returns when the first hold of r ends, negative if none does. A name that
// nobody holds is kept for so long.
func lease(r admin.Record) time.Duration {
	if len(r.Holds) == 0 {
		return r.Remaining
	}
	first := r.Holds[0].Remaining
	for _, h := range r.Holds[1:] {
		if h.Remaining >= 0 && (first < 0 || h.Remaining < first) {
			first = h.Remaining
		}
	}
	return first
}

func holdOf(h admin.Hold) holdJSON {
	return holdJSON{
		Owner: h.Owner, Who: person(h.Owner, h.Note, h.Client), Note: h.Note, Mode: h.Mode.String(),
		Count: h.Holds, Token: h.Token, LeaseMS: leaseOf(h.Remaining), HeldMS: h.HeldFor.Milliseconds(),
		Client: clientOf(h.Client),
	}
}

func clientOf(c admin.Client) clientJSON {
	j := clientJSON{ID: c.ID, Library: c.Library, Program: c.Program, Host: c.Host, PID: c.PID, Note: c.Note}
	if !c.Started.IsZero() {
		j.Started = &c.Started
	}
	return j
}

// leaseOf returns d in milliseconds, -1 if it does not end, or if that is not told.
func leaseOf(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}
