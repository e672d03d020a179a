package output

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/plural"
)

// IsHeld reports whether a client would have to wait for the name. A semaphore is held if no
// permit is free.
func IsHeld(r admin.Record) bool {
	switch r.Kind {
	case admin.KindSemaphore:
		return r.Free <= 0
	case admin.KindMulti:
		return true
	case admin.KindCounter, admin.KindLatch:
		return r.Count <= 0
	default:
		return r.Holders+len(r.Holds) > 0
	}
}

// StateText returns a text about the state of a name, with its holders. For a semaphore with
// free permits, the text begins with their number.
func StateText(r admin.Record) string {
	held := "held by " + People(r)
	if lasted := heldText(r.Holds); r.Holders == 1 && lasted != "-" {
		held += " for " + lasted
	}
	held += ", lease " + EndText(Lease(r))
	permits := plural.Count(r.Free, "permit") + " free"
	switch free := r.Kind == admin.KindSemaphore && r.Free > 0; {
	case r.Kind == admin.KindOther:
		return "in use for something that is not a lock"
	case free && r.Holders > 0:
		return fmt.Sprintf("%s, %d %s", permits, r.Holders, held)
	case free:
		return permits
	case r.Holders > 0:
		return held
	case len(r.Holds) > 0:
		return People(r)
	case r.Kind != "":
		return string(r.Kind) + ", held by nobody"
	}
	return "free"
}

// EndText returns a text about the end of a lease.
func EndText(d time.Duration) string {
	switch {
	case d == admin.RemainingUnknown:
		return "unknown"
	case d < 0:
		return "never ends"
	}
	return "ends in " + LeaseText(d)
}

// ServerStatus is the JSON of the status of a server.
type ServerStatus struct {
	Version   int     `json:"version"`
	URL       string  `json:"url"` // without passwords
	Config    string  `json:"config,omitempty"`
	Store     string  `json:"store"` // redis, etcd, zookeeper, postgres or mysql
	Title     string  `json:"-"`     // the name of the product
	Server    string  `json:"server"`
	Mode      string  `json:"mode,omitempty"`
	Role      string  `json:"role,omitempty"`
	Replicas  int     `json:"replicas"`
	UptimeS   int64   `json:"uptime_s,omitempty"`
	Eviction  string  `json:"eviction,omitempty"`
	Evicted   int64   `json:"evicted_keys"`
	LatencyMS float64 `json:"latency_ms"`
	Layout    string  `json:"layout,omitempty"` // of a Redis: redisson, plain or timestamp; of a table: lease or shedlock
	Prefix    string  `json:"prefix"`
	Confirms  string  `json:"confirmed_by,omitempty"` // how many replicas confirm each lock
}

// Text returns s for people.
func (s ServerStatus) Text() string {
	var p Page
	p.Line("store", "%s", Clean(s.URL))
	if s.Config != "" {
		p.Line("config", "%s", s.Config)
	}
	p.Line("server", "%s", s.serverText())
	if s.Role != "" {
		p.Line("role", "%s, %s connected", s.Role, plural.Count(s.Replicas, "replica"))
	}
	if s.Eviction != "" {
		warning := ""
		if s.Eviction != "noeviction" {
			warning = ": the server can remove held locks to free memory"
		}
		p.Line("eviction", "%s, %s evicted so far%s", s.Eviction, plural.Count(s.Evicted, "key"), warning)
	}
	p.Line("latency", "%.2f ms", s.LatencyMS)
	if s.Layout != "" {
		p.Line("layout", "%s", s.Layout)
	}
	if s.Prefix != "" {
		p.Line("prefix", "%s", Clean(s.Prefix))
	}
	switch s.Confirms {
	case "", "0":
	case "1":
		p.Line("confirmed", "by 1 replica")
	default:
		p.Line("confirmed", "by %s replicas", s.Confirms)
	}
	return p.String()
}

func (s ServerStatus) serverText() string {
	text := "unknown version"
	if s.Server != "" {
		text = "version " + s.Server
	}
	if s.Mode == "" { // not a Redis
		return s.Title + " " + text
	}
	text += ", " + s.Mode
	if s.UptimeS > 0 {
		text += ", up for " + (time.Duration(s.UptimeS) * time.Second).String()
	}
	return text
}
