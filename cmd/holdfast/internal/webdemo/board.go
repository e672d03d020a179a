package webdemo

import (
	"fmt"
	"sync"
	"time"
)

// logged is how many lines of the log are shown.
const logged = 14

// state is what the page shows. Slices in it are never changed, only replaced.
// Times are in ms since 1970, 0 for none.
type state struct {
	Instances [2]instanceState `json:"instances"`
	Lock      lockState        `json:"lock"`
	Nodes     []nodeState      `json:"nodes"`
	Race      raceState        `json:"redlock"`
	Sales     [2]saleState     `json:"oversell"` // without a lock, with it
	Log       []entry          `json:"log"`      // the last first
}

// instanceState is what an instance is doing.
type instanceState struct {
	Number       int    `json:"number"`
	PID          int    `json:"pid"`
	Ready        bool   `json:"ready"`
	Paused       int64  `json:"paused,omitempty"` // since when
	Cut          bool   `json:"cut,omitempty"`
	Holds        bool   `json:"holds"`
	Lost         bool   `json:"lost,omitempty"` // it has lost its lock and is about to write
	Since        int64  `json:"since,omitempty"`
	Work         int64  `json:"work_ms,omitempty"`
	Token        uint64 `json:"token,omitempty"`
	Waiting      int    `json:"waiting"`
	WaitingSince int64  `json:"waiting_since,omitempty"`
}

// lockState is the lock as it is in the store.
type lockState struct {
	At       int64      `json:"at"` // when it was read
	Held     bool       `json:"held"`
	Holder   string     `json:"holder,omitempty"`
	Owner    string     `json:"owner,omitempty"`
	Ends     int64      `json:"ends,omitempty"` // unless it is renewed
	Lease    int64      `json:"lease_ms"`
	Waiters  int        `json:"waiting_processes"` // -1 if the store does not tell
	Keys     []keyState `json:"keys"`
	Trouble  string     `json:"trouble,omitempty"`
	Answered bool       `json:"-"` // it was read at least once
}

// Unreachable returns how many nodes are cut off if that leaves no majority, else 0.
func (s state) Unreachable() (n int) {
	for _, node := range s.Nodes {
		if node.Cut {
			n++
		}
	}
	if 2*(len(s.Nodes)-n) > len(s.Nodes) {
		return 0
	}
	return n
}

// keyState is a key in Redis.
type keyState struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Ends  int64  `json:"ends,omitempty"`
	Value string `json:"value"`
	What  string `json:"what"`
}

// entry is a line of the log.
type entry struct {
	At    int64  `json:"at"`
	Class string `json:"class,omitempty"` // "good", "warn", "bad"
	Text  string `json:"text"`
}

// board is the state, and says when it changes.
type board struct {
	mu      sync.Mutex
	state   state
	version int64
	changed chan struct{}
}

func newBoard() *board {
	b := &board{version: 1, changed: make(chan struct{})}
	for i := range b.state.Instances {
		b.state.Instances[i].Number = i + 1
	}
	b.state.Sales[1].Locked = true
	return b
}

func (b *board) update(change func(*state)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.state)
	b.version++
	close(b.changed)
	b.changed = make(chan struct{})
}

// read returns the state, its version, and a channel that is closed when there is
// a newer one.
func (b *board) read() (state, int64, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, b.version, b.changed
}

// log notes what happened.
func (b *board) log(class, format string, args ...any) {
	e := entry{At: time.Now().UnixMilli(), Class: class, Text: fmt.Sprintf(format, args...) + "."}
	b.update(func(s *state) {
		s.Log = append([]entry{e}, s.Log[:min(len(s.Log), logged-1)]...)
	})
}

// stamp returns t in ms since 1970, 0 for the zero time.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
