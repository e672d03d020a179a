package output

import (
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
)

// JSONVersion is incremented when a field changes its meaning or is removed, but not when a
// field is added.
const JSONVersion = 1

// Record is the JSON of an admin.Record. Times are in milliseconds. A lease without an end,
// or with an unknown end, is -1. LeaseMS is the lease of the hold that ends first. If the
// name has no holds, LeaseMS is how long the store keeps the name.
type Record struct {
	Version   int          `json:"version"`
	Name      string       `json:"name"`
	NameBytes []byte       `json:"name_base64,omitempty"` // set if the name is not UTF-8
	Kind      string       `json:"kind"`                  // "" for a name that is free
	Holders   int          `json:"holders"`
	Holds     []Hold       `json:"holds"`
	Unleased  []Hold       `json:"unleased,omitempty"` // holds without a lease: readers that died, or holders of another kind of lock of that name
	Waiting   int          `json:"waiting"`            // the number of waiters, as far as the store shows them
	Waiters   []waiterJSON `json:"waiters"`            // the waiters in the queue; in inspect and status also waiters without a place
	Permits   *int         `json:"permits,omitempty"`
	Free      *int         `json:"free,omitempty"`
	Count     *int64       `json:"count,omitempty"`
	LeaseMS   int64        `json:"remaining_ms"`
}

// Hold is the JSON of an admin.Hold.
type Hold struct {
	Owner   string     `json:"owner"`
	Holder  string     `json:"holder"` // the name of the holder, for people
	Note    string     `json:"note,omitempty"`
	Mode    string     `json:"mode"`
	Count   int        `json:"count"`
	Token   uint64     `json:"token,omitempty"`
	LeaseMS int64      `json:"remaining_ms"`
	HeldMS  int64      `json:"held_ms,omitempty"`
	Kept    bool       `json:"kept,omitempty"` // nobody holds the lock: its name stays taken for remaining_ms
	Client  clientJSON `json:"client"`
}

// waiterJSON is a waiter. A waiter in the queue has a place: the first waiter has place 1.
// Other waiters have no place.
type waiterJSON struct {
	Waiter   string     `json:"waiter"` // the name of the waiter, for people
	Place    int        `json:"place,omitempty"`
	Owner    string     `json:"owner,omitempty"` // set for a waiter in the queue
	Mode     string     `json:"mode"`
	LeaseMS  *int64     `json:"remaining_ms,omitempty"` // the waiter loses its place after this time, unless it renews the place
	WaitedMS int64      `json:"waited_ms,omitempty"`
	Count    int        `json:"count,omitempty"` // how many goroutines of the client wait
	Client   clientJSON `json:"client"`
}

// clientJSON has the fields of an admin.Client.
type clientJSON struct {
	ID      string    `json:"id,omitempty"`
	Library string    `json:"library,omitempty"`
	Program string    `json:"program,omitempty"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Note    string    `json:"note,omitempty"`
	Started time.Time `json:"started,omitzero"`
}

// RecordOf returns the JSON of r. The parameter `waits` has the waiters without a place in
// the queue of r.
func RecordOf(r admin.Record, waits ...admin.ClientWait) Record {
	j := Record{
		Version: JSONVersion, Name: r.Name, Kind: string(r.Kind), Holders: r.Holders,
		Holds: []Hold{}, Waiters: []waiterJSON{}, LeaseMS: leaseOf(Lease(r)),
	}
	if !utf8.ValidString(r.Name) {
		j.NameBytes = []byte(r.Name)
	}
	switch r.Kind {
	case admin.KindSemaphore:
		j.Permits, j.Free = &r.Permits, &r.Free
	case admin.KindCounter, admin.KindLatch:
		j.Count = &r.Count
	}
	for _, h := range r.Holds {
		j.Holds = append(j.Holds, HoldOf(h))
	}
	for _, h := range r.Unleased {
		j.Unleased = append(j.Unleased, HoldOf(h))
	}
	for i, w := range r.Waiters {
		left := leaseOf(w.Remaining)
		j.Waiters = append(j.Waiters, waiterJSON{
			Waiter: Person(w.Owner, w.Note, w.Client), Place: i + 1, Owner: w.Owner, Mode: w.Mode.String(),
			LeaseMS: &left, Client: clientJSON(w.Client),
		})
	}
	for _, w := range waits {
		j.Waiters = append(j.Waiters, waiterJSON{
			Waiter: Person("", "", w.Client), Mode: w.Mode.String(),
			WaitedMS: w.Waited.Milliseconds(), Count: w.Count, Client: clientJSON(w.Client),
		})
	}
	j.Waiting = max(Waiters(r), len(j.Waiters))
	return j
}

// Lease returns the time until the first hold of r ends. It is negative if no hold ends, or
// if no end is known. If r has no holds, Lease returns how long the store keeps the name.
func Lease(r admin.Record) time.Duration {
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

// HoldOf returns the JSON of h.
func HoldOf(h admin.Hold) Hold {
	return Hold{
		Owner: h.Owner, Holder: Person(h.Owner, h.Note, h.Client), Note: h.Note, Mode: h.Mode.String(),
		Count: h.Holds, Token: h.Token, LeaseMS: leaseOf(h.Remaining), HeldMS: h.HeldFor.Milliseconds(), Kept: h.Kept(),
		Client: clientJSON(h.Client),
	}
}

// leaseOf returns d in milliseconds. It returns -1 if there is no end, or if the end is
// unknown.
func leaseOf(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// Detail is the JSON of an admin.Detail.
type Detail struct {
	Record
	Token uint64    `json:"token,omitempty"`
	Keys  []keyJSON `json:"keys"`
}

type keyJSON struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	LeaseMS int64  `json:"remaining_ms"`
	Value   string `json:"value"`
}

// DetailOf returns the JSON of d.
func DetailOf(d admin.Detail) Detail {
	j := Detail{Record: RecordOf(d.Record, d.Waits...), Token: d.Token, Keys: []keyJSON{}}
	for _, k := range d.Keys {
		j.Keys = append(j.Keys, keyJSON{k.Name, k.Type, leaseOf(k.Remaining), k.Value})
	}
	return j
}

// Waiters returns the number of waiters, as far as the store shows them.
func Waiters(r admin.Record) int { return max(r.Waiting, r.Listeners, 0) }
