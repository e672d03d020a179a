package main

import (
	"fmt"
	"time"
)

// change is a line of tail.
type change struct {
	Version  int       `json:"version"`
	At       time.Time `json:"at"`
	Event    string    `json:"event"`              // held, acquired, released, expired, forced, renewed-late, count, waiting, unreachable, back; reported: gave-up, lost, missed
	Reported bool      `json:"reported,omitempty"` // by the program itself; all other events come from polling
	ID       string    `json:"id,omitempty"`       // reported: names the event
	Name     string    `json:"name,omitempty"`
	Kind     string    `json:"kind,omitempty"`
	Who      string    `json:"holder,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	Mode     string    `json:"mode,omitempty"`
	Token    uint64    `json:"token,omitempty"` // reported
	Count    int       `json:"count,omitempty"`
	Waiting  *int      `json:"waiting,omitempty"`
	WaitMS   int64     `json:"waited_ms,omitempty"`    // acquired, gave-up, where it was reported
	HeldMS   int64     `json:"held_ms,omitempty"`      // released, expired, forced, lost: for how long it was seen, or held
	Reason   string    `json:"reason,omitempty"`       // forced: why, and who did it; lost, released: why
	LeaseMS  int64     `json:"remaining_ms,omitempty"` // renewed-late: what was left when it was seen before
	SeenAs   string    `json:"seen_as,omitempty"`      // lost: the event that was printed of the same end, when it was seen
	Error    string    `json:"error,omitempty"`
}

func (t *tailer) print(c change) error {
	c.Version = jsonVersion
	if c.At.IsZero() {
		c.At = time.Now()
	}
	var err error
	if t.json {
		err = jsonTo(t.env.stdout).Encode(c)
	} else {
		_, err = fmt.Fprintln(t.env.stdout, c)
	}
	if t.lines++; err == nil && t.lines == t.count {
		return errEnough
	}
	return err
}

// String is the line for people.
func (c change) String() string {
	text := fmt.Sprintf("%s  %-12s", timeText(c.At, time.Now()), c.Event)
	if c.Name != "" {
		text += " " + clean(c.Name)
	}
	if c.Reported {
		return text + c.loggedText()
	}
	switch c.Event {
	case "held", "acquired":
		text += "  by " + c.Who
	case "count":
		text += fmt.Sprintf("  %d times by %s", c.Count, c.Who)
	case "released", "expired":
		text += fmt.Sprintf("  by %s, seen for %s", c.Who, coarse(time.Duration(c.HeldMS)*time.Millisecond))
	case "forced":
		text += fmt.Sprintf("  taken from %s, seen for %s: %s", c.Who, coarse(time.Duration(c.HeldMS)*time.Millisecond), clean(c.Reason))
	case "renewed-late":
		text += fmt.Sprintf("  by %s, %s of its lease were left", c.Who, coarse(time.Duration(c.LeaseMS)*time.Millisecond))
	case "waiting":
		text += fmt.Sprintf("  %d in the queue", *c.Waiting)
	case "unreachable":
		text += " " + c.Error
	}
	return text
}
