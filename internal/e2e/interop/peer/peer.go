// Package peer speaks with programs in other languages that use locks of their
// own: a line of JSON for each command, a line of JSON for each answer.
//
// A command names a logical thread. Commands of one thread are carried out one
// after another, those of different threads at the same time; answers come in the
// order in which they are known. Each program under interop/java, interop/python
// and interop/node understands the operations that its library has.
package peer

import (
	"encoding/json"
	"fmt"
	"time"
)

// Command is what a program is asked to do.
type Command struct {
	ID     int64    `json:"id"`               // set by Process
	Thread string   `json:"thread,omitempty"` // who does it; "main" if empty
	Op     string   `json:"op"`               // lock, tryLock, unlock, …: see the programs
	Kind   string   `json:"kind,omitempty"`   // which object: lock, fair, read, write, …; default lock
	Name   string   `json:"name,omitempty"`
	Names  []string `json:"names,omitempty"` // of a multi-lock
	Wait   int64    `json:"wait,omitempty"`  // how long to wait, in ms; 0: not at all
	Lease  int64    `json:"lease,omitempty"` // in ms; 0: the library's own, renewed
	N      int64    `json:"n,omitempty"`     // permits, counts, rounds
	Value  string   `json:"value,omitempty"` // a permit's id, a counter's key, another thread
}

// Reply is what became of a command.
type Reply struct {
	ID    int64           `json:"id"`
	Value json.RawMessage `json:"value,omitempty"` // what the operation returned
	Error string          `json:"error,omitempty"` // the message of what it threw
	Class string          `json:"class,omitempty"` // and its class
	At    int64           `json:"at"`              // when it was known: ns of the system's monotonic clock

	Received time.Time `json:"-"` // when it was here
}

// Err returns what the operation threw, or nil.
func (r Reply) Err() error {
	if r.Class == "" && r.Error == "" {
		return nil
	}
	return &Thrown{r.Class, r.Error}
}

// Bool returns the value of an operation that says yes or no.
func (r Reply) Bool() bool {
	var b bool
	return json.Unmarshal(r.Value, &b) == nil && b
}

// Int returns the value of an operation that counts, or -1 << 62 if it is none.
func (r Reply) Int() int64 {
	var n int64
	if json.Unmarshal(r.Value, &n) != nil {
		return -1 << 62
	}
	return n
}

// Text returns the value of an operation that returns text, or "".
func (r Reply) Text() string {
	var s string
	_ = json.Unmarshal(r.Value, &s)
	return s
}

// Thrown is an error or exception of the other program.
type Thrown struct {
	Class   string // as its language names it
	Message string
}

// Error returns the class and the message.
func (e *Thrown) Error() string { return fmt.Sprintf("%s: %s", e.Class, e.Message) }
