package operate

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// change is a line of tail.
type change struct {
	Version  int       `json:"version"`
	At       time.Time `json:"at"`
	Event    string    `json:"event"`              // the type of the observe.Change, or "unreachable" or "back" for the store
	Reported bool      `json:"reported,omitempty"` // a program reported it; else polling found it
	ID       string    `json:"id,omitempty"`       // the ID of the entry in the event log
	Name     string    `json:"name,omitempty"`
	Kind     string    `json:"kind,omitempty"`
	Who      string    `json:"holder,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	Mode     string    `json:"mode,omitempty"`
	Token    uint64    `json:"token,omitempty"` // 0 if it is not known
	Count    int       `json:"count,omitempty"`
	Waiting  *int      `json:"waiting,omitempty"`
	WaitMS   int64     `json:"waited_ms,omitempty"`    // acquired, gave-up: how long the client waited, if a program reported it
	HeldMS   int64     `json:"held_ms,omitempty"`      // released, expired, forced, lost: how long the hold lasted, or how long polls have seen it
	Reason   string    `json:"reason,omitempty"`       // forced: why, and who did it; lost, released: why
	LeaseMS  int64     `json:"remaining_ms,omitempty"` // renewed-late: the rest of the lease
	Error    string    `json:"error,omitempty"`
	details  string    // for people: the text after the name
}

func changeOf(c observe.Change) change {
	l := change{
		At: c.At, Event: string(c.Type), Reported: c.Reported, ID: c.ID, Name: c.Name, Kind: string(c.Kind),
		Owner: c.Owner, Token: c.Token, Count: c.Count, WaitMS: c.Waited.Milliseconds(), HeldMS: c.HeldFor.Milliseconds(),
		Reason: c.Reason, LeaseMS: c.Left.Milliseconds(),
	}
	if c.Type == admin.EntryWaiting && !c.Reported {
		l.Waiting, l.details = &c.Waiting, fmt.Sprintf("%d in the queue", c.Waiting)
		return l
	}
	if l.Who = output.Person(c.Owner, c.Note, c.Client); c.Kind != "" {
		l.Mode = c.Mode.String()
	}
	c.Reason = output.Clean(c.Reason)
	l.details = c.Text(l.Who, func(d time.Duration) string { return output.Coarse(d).String() })
	return l
}

func (t *tailer) print(c change) error {
	c.Version = output.JSONVersion
	c.At = cmp.Or(c.At, time.Now())
	var err error
	if t.JSON {
		err = output.JSONTo(t.Env.Stdout).Encode(c)
	} else {
		_, err = fmt.Fprintln(t.Env.Stdout, c)
	}
	if t.lines++; err == nil && t.lines == t.Count {
		return errEnough
	}
	return err
}

// String returns the line for people.
func (c change) String() string {
	text := fmt.Sprintf("%s  %-12s", timeText(c.At, time.Now()), c.Event)
	if c.Name != "" {
		text += " " + output.Clean(c.Name) + " "
	}
	if c.details != "" {
		text += " " + c.details
	}
	return text
}

// timeText formats the time `at`, without the date if `at` and `now` are on the same day.
func timeText(at, now time.Time) string {
	const today = "15:04:05.0"
	at, now = at.Local(), now.Local()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format(today)
	}
	return at.Format("2006-01-02 " + today)
}
