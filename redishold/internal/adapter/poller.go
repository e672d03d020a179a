package adapter

import (
	"sync"
	"time"
)

// Poller polls for a change of masters, for some time after Suspect. Between two polls it has
// only a timer, so that no goroutine outlives its client for seconds.
type Poller struct {
	interval, duration time.Duration
	poll               func() (changed, last bool)

	mu        sync.Mutex
	requested bool          // Suspect or Once was called since the latest poll began
	until     time.Time     // when polling ends
	changed   chan struct{} // closed when a poll finds a change; nil while no poll is planned
}

// NewPoller returns a Poller. For the given duration after a call of Suspect, it calls the
// function `poll` at the given interval, never twice at a time. The function `poll` reports
// whether it has found a change, and whether polling must end.
func NewPoller(interval, duration time.Duration, poll func() (changed, last bool)) *Poller {
	return &Poller{interval: interval, duration: duration, poll: poll}
}

// Suspect starts or prolongs polling. It is for a caller that has got no reply: the server that
// did not reply may be replaced some seconds later.
func (p *Poller) Suspect() { p.begin(p.duration) }

// Once starts one poll.
func (p *Poller) Once() { p.begin(0) }

// Changed returns a channel that is closed when a poll finds a change, and nil while no poll
// is planned.
func (p *Poller) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

func (p *Poller) begin(duration time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requested = true
	if until := time.Now().Add(duration); until.After(p.until) {
		p.until = until
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
		go p.run()
	}
}

// run polls once, and plans the next poll if one is due.
func (p *Poller) run() {
	p.mu.Lock()
	p.requested = false
	p.mu.Unlock()
	changed, last := p.poll()
	p.mu.Lock()
	defer p.mu.Unlock()
	if changed {
		close(p.changed)
		p.changed = make(chan struct{})
	}
	if !last && (p.requested || time.Now().Before(p.until)) {
		time.AfterFunc(p.interval, p.run)
		return
	}
	p.changed = nil
}
