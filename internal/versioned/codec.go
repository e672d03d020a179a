package versioned

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

// format is the number of the layout that encode writes. A later layout with anything that this one
// would lose must have a larger number. Then this version of Holdfast refuses the document, and does
// not write without what it does not know. So a later version that runs beside this one writes this
// format, until it is told that all processes know its own.
const format = 1

// stored is a document as a Store keeps it: JSON. A time is kept as a number of microseconds: those
// that are left until then, or those that have passed since then, at the moment of the write.
type stored struct {
	Format   int    `json:"format"`
	Revision uint64 `json:"revision"` // rises with each write
	Written  int64  `json:"written"`  // the clock of the writer, in microseconds since 1970
	Last     uint64 `json:"last,omitempty"`

	Kind    document.Kind  `json:"kind,omitempty"`
	Permits int            `json:"permits,omitempty"`
	Count   int64          `json:"count,omitempty"`
	Freed   int64          `json:"freed,omitempty"` // microseconds ago; 0 if never
	Grants  []storedGrant  `json:"grants,omitempty"`
	Queue   []storedPlace  `json:"queue,omitempty"`
	Waiting []storedMark   `json:"waiting,omitempty"`
	Answers []storedAnswer `json:"answers,omitempty"`
	Forced  []storedForced `json:"forced,omitempty"`
}

// storedLease is the end of a lease.
type storedLease struct {
	Left    int64  `json:"left"`    // microseconds
	Renewed uint64 `json:"renewed"` // the revision that has set the end
}

type storedGrant struct {
	Owner  string `json:"owner"`
	Note   string `json:"note,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Holds  int    `json:"holds,omitempty"`
	Token  uint64 `json:"token"`
	Since  int64  `json:"since"` // microseconds ago
	Client string `json:"client,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`
	storedLease
}

type storedPlace struct {
	Owner  string `json:"owner"`
	Note   string `json:"note,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Client string `json:"client,omitempty"`
	storedLease
}

type storedMark struct {
	Owner  string `json:"owner"`
	Mode   string `json:"mode,omitempty"`
	Client string `json:"client,omitempty"`
}

type storedAnswer struct {
	Call string `json:"call"`
	Set  bool   `json:"set,omitempty"`
	storedLease
}

type storedForced struct {
	Owner string `json:"owner"`
	Note  string `json:"note,omitempty"`
	Why   string `json:"why,omitempty"`
	storedLease
}

// modes are the texts of modes. "" is exclusive.
func modes() map[string]driver.Mode {
	return map[string]driver.Mode{"": driver.Exclusive, driver.Shared.String(): driver.Shared, driver.Permit.String(): driver.Permit}
}

func modeText(m driver.Mode) string {
	if m == driver.Exclusive {
		return ""
	}
	return m.String()
}

// encode returns the data of d as it is at the time `now`. The parameter `wall` is the same time by
// the clock on the wall.
func encode(d *document.Document, now, wall time.Time) []byte {
	left := func(t time.Time, renewed uint64) storedLease {
		return storedLease{Left: max(t.Sub(now).Microseconds()+1, 1), Renewed: renewed} // rounded up: a lease never ends early
	}
	s := stored{
		Format: format, Revision: d.Revision, Written: wall.UnixMicro(), Last: d.Last,
		Kind: d.Kind, Permits: d.Permits, Count: d.Count,
	}
	if !d.Freed.IsZero() {
		s.Freed = max(now.Sub(d.Freed).Microseconds(), 1)
	}
	for _, g := range d.Grants {
		s.Grants = append(s.Grants, storedGrant{
			Owner: g.Owner, Note: valid(g.Note), Mode: modeText(g.Mode), Holds: g.Holds, Token: g.Token,
			Since: now.Sub(g.Since).Microseconds(), Client: g.Client, Seq: g.Seq, storedLease: left(g.Expires, g.Renewed),
		})
	}
	for _, p := range d.Queue {
		s.Queue = append(s.Queue, storedPlace{Owner: p.Owner, Note: valid(p.Note), Mode: modeText(p.Mode), Client: p.Client, storedLease: left(p.Expires, p.Renewed)})
	}
	for _, m := range d.Waiting {
		s.Waiting = append(s.Waiting, storedMark{Owner: m.Owner, Mode: modeText(m.Mode), Client: m.Client})
	}
	for _, a := range d.Answers {
		s.Answers = append(s.Answers, storedAnswer{Call: a.Call, Set: a.Set, storedLease: left(a.Expires, a.Renewed)})
	}
	for _, f := range d.Forced {
		s.Forced = append(s.Forced, storedForced{Owner: f.Owner, Note: valid(f.Note), Why: valid(f.Why), storedLease: left(f.Expires, f.Renewed)})
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("versioned: a document that is no JSON: %v", err)) // it has only numbers and texts
	}
	return data
}

// valid returns a text for people, without bytes that JSON cannot have.
func valid(text string) string { return strings.ToValidUTF8(text, "�") }

// decode returns the document in data. The function `writtenAt` returns when the document was
// written, by the clock of this process, and not earlier than it was. Its parameter is the clock of
// the writer. Empty data is a document that was never used.
func decode(name string, data []byte, writtenAt func(time.Time) time.Time) (*document.Document, error) {
	if len(data) == 0 {
		return &document.Document{}, nil
	}
	var s stored
	if err := json.Unmarshal(data, &s); err != nil || s.Format == 0 {
		return nil, fmt.Errorf("%q has something that is no document of Holdfast: %w", name, driver.ErrMismatch)
	}
	if s.Format > format {
		return nil, fmt.Errorf("%q was written by a later version of Holdfast, in format %d; this version knows format %d: %w, %w",
			name, s.Format, format, driver.ErrRefused, driver.ErrNotExecuted)
	}
	at := writtenAt(time.UnixMicro(s.Written))
	ends := func(l storedLease) time.Time { return at.Add(micros(l.Left)) }
	mode := modes()
	d := &document.Document{Kind: s.Kind, Permits: s.Permits, Count: s.Count, Last: s.Last, Revision: s.Revision}
	if s.Freed > 0 {
		d.Freed = at.Add(-micros(s.Freed))
	}
	for _, g := range s.Grants {
		d.Grants = append(d.Grants, document.Grant{
			Owner: g.Owner, Note: g.Note, Mode: mode[g.Mode], Holds: g.Holds, Token: g.Token, Since: at.Add(-micros(g.Since)),
			Client: g.Client, Seq: g.Seq, Expires: ends(g.storedLease), Renewed: g.Renewed,
		})
	}
	for _, p := range s.Queue {
		d.Queue = append(d.Queue, document.Place{Owner: p.Owner, Note: p.Note, Mode: mode[p.Mode], Client: p.Client, Expires: ends(p.storedLease), Renewed: p.Renewed})
	}
	for _, m := range s.Waiting {
		d.Waiting = append(d.Waiting, document.Mark{Owner: m.Owner, Mode: mode[m.Mode], Client: m.Client})
	}
	for _, a := range s.Answers {
		d.Answers = append(d.Answers, document.Answer{Call: a.Call, Set: a.Set, Expires: ends(a.storedLease), Renewed: a.Renewed})
	}
	for _, f := range s.Forced {
		d.Forced = append(d.Forced, document.Forced{Owner: f.Owner, Note: f.Note, Why: f.Why, Expires: ends(f.storedLease), Renewed: f.Renewed})
	}
	return d, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
