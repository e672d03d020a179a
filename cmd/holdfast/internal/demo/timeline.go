package demo

import (
	"slices"
	"sync"
	"time"
)

// Bounds of a timeline. Eight processes of each instance may run at a time, and those must fit.
const (
	shownTime   = time.Minute // how much of the past the page shows at most
	mostRuns    = 4 * mostProcesses
	mostEvents  = 40  // of one run, after its first state
	mostSamples = 300 // a minute of samples, and some that events have caused

	afterLast  = 2 * time.Second // for how long the present moment moves on after the last event
	watchedFor = 5 * time.Second // longer than the time between two requests of a browser without JavaScript
)

// Kinds of events that no process reports: the demo causes them, or finds them in the store.
const (
	started   kind = "started"    // the process has started, and asks for the lock
	paused    kind = "paused"     // the process was paused
	resumed   kind = "resumed"    // the process was resumed
	cutOff    kind = "cut off"    // the network of the process was cut
	connected kind = "connected"  // the network of the process was restored
	killed    kind = "killed"     // the process was killed
	leaseOver kind = "lease over" // the lease of the process has ended in the store
	gone      kind = "gone"       // the process has ended
)

// event is something that happened to a process. Token is that of the lock, or for a refused
// write the larger one that the ledger has seen.
type event struct {
	at    time.Time
	kind  kind
	token uint64
}

// run is one process of an instance, from its start to its end.
type run struct {
	instance, pid int
	name          string    // the note of its lock in the store
	at            time.Time // the beginning of the state `first`
	first         state     // the state before the events
	events        []event   // in the order of their times
}

// sample is what the store said about the lock at one moment.
type sample struct {
	at     time.Time
	failed bool      // the store did not answer
	owner  string    // the holder, as the store identifies it; "" if nobody holds the lock
	note   string    // the holder, for people
	pid    int       // the process of the holder; 0 if unknown
	until  time.Time // when the lease ends without another renewal
}

// timeline is a record of what happens in the scene of two instances. A process that starts
// while nothing happens begins a new record. The size of the record is bounded.
type timeline struct {
	mu       sync.Mutex
	began    time.Time // zero before the first event
	last     time.Time // when something last happened, or went on
	runs     []*run
	samples  []sample
	watched  time.Time  // when somebody last looked at the page
	verdicts [2]verdict // how the last request of each instance ended

	nudge chan struct{} // gets a value when the store may have changed
}

func newTimeline() *timeline { return &timeline{nudge: make(chan struct{}, 1)} }

// begin adds a process that has just started.
func (t *timeline) begin(r *run, pid int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enter(at)
	t.verdicts[r.instance-1] = verdict{}
	r.pid, r.at, r.first = pid, at, state{phase: waits}
	r.events = append([]event{{at: at, kind: started}}, r.events...)
	if len(t.runs) == mostRuns {
		oldest := max(slices.IndexFunc(t.runs, func(r *run) bool { return r.now().phase == ended }), 0)
		t.runs = slices.Delete(t.runs, oldest, oldest+1)
	}
	t.runs = append(t.runs, r)
}

// enter makes the record ready for something that happens at a time. If nothing has happened
// for a while, the record begins again.
func (t *timeline) enter(at time.Time) {
	if !t.goesOn() {
		t.began, t.runs, t.verdicts = at, nil, [2]verdict{}
		t.samples = t.samples[max(0, len(t.samples)-1):]
	}
	t.last = at
}

// note adds an event of a process, unless the event changes nothing.
func (t *timeline) note(r *run, k kind, token uint64, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, s := event{at, k, token}, r.now()
	isWrite := k == wrote || k == refused
	if s.phase == ended || !isWrite && s.after(e) == s {
		return
	}
	t.last = at
	r.add(e)
	select {
	case t.nudge <- struct{}{}:
	default: // one sample is enough for several events
	}
}

// hear adds what the process reports with the message m.
func (t *timeline) hear(r *run, m message, at time.Time) {
	switch m.Kind {
	case unlocked:
		if m.Text != "" { // the lock was lost before
			m.Kind = gone
		}
	case held, lost, wrote, refused, failed, died:
	default:
		return
	}
	t.note(r, m.Kind, m.Token, at)
}

// add inserts an event by its time, and forgets the oldest one if there are too many.
func (r *run) add(e event) {
	place := len(r.events)
	for place > 0 && r.events[place-1].at.After(e.at) {
		place--
	}
	r.events = slices.Insert(r.events, place, e)
	if len(r.events) > mostEvents {
		r.first, r.at = r.first.after(r.events[0]), r.events[0].at
		r.events = r.events[1:]
	}
}

// now returns the state of the process after all events.
func (r *run) now() state {
	s := r.first
	for _, e := range r.events {
		s = s.after(e)
	}
	return s
}

// sample adds what the store said. It also adds an event to the process whose lease has ended
// since the last sample. A process that releases the lock reports that itself, unless a fault
// keeps it from doing so.
func (t *timeline) sample(n sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := lastAnswer(t.samples)
	if n.owner != "" {
		t.enter(n.at)
	}
	if !n.failed && before.owner != "" && n.owner != before.owner {
		t.last = n.at
		r := holderIn(t.runs, before)
		switch {
		case r == nil:
		case !before.until.After(n.at):
			r.add(event{at: before.until, kind: leaseOver})
		case r.now().paused || r.now().cut:
			r.add(event{at: n.at, kind: leaseOver}) // by force
		}
	}
	t.samples = append(t.samples, n)
	t.samples = t.samples[max(0, len(t.samples)-mostSamples):]
}

// lastAnswer returns the last sample in which the store answered, or the zero sample.
func lastAnswer(samples []sample) sample {
	for _, s := range slices.Backward(samples) {
		if !s.failed {
			return s
		}
	}
	return sample{}
}

// holderIn returns the process that holds the lock in a sample, or nil if it is not of this demo.
func holderIn(runs []*run, s sample) *run {
	for _, r := range slices.Backward(runs) {
		if s.owner != "" && r.pid == s.pid && r.name == s.note {
			return r
		}
	}
	return nil
}

// goesOn reports whether a process runs, or the lock is held.
func (t *timeline) goesOn() bool {
	return lastAnswer(t.samples).owner != "" || slices.ContainsFunc(t.runs, func(r *run) bool { return r.now().phase != ended })
}

// look records that somebody looks at the page.
func (t *timeline) look(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched = at
}

// wanted reports whether anybody wants samples: a process runs, or somebody looks.
func (t *timeline) wanted(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.watched) < watchedFor || t.goesOn()
}

// judge records how the last request of an instance ended.
func (t *timeline) judge(instance int, v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.verdicts[instance-1] = v
}

// states returns the state of each process of an instance that has not ended.
func (t *timeline) states(instance int) (states []state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.runs {
		if s := r.now(); r.instance == instance && s.phase != ended {
			states = append(states, s)
		}
	}
	return states
}

// copied returns what the timeline has recorded until the time `now`, for a picture.
func (t *timeline) copied(now time.Time) recorded {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := recorded{began: t.began, edge: now, samples: slices.Clone(t.samples), verdicts: t.verdicts}
	if t.goesOn() {
		t.last = now
	} else if limit := t.last.Add(afterLast); limit.Before(now) {
		c.edge, c.still = limit, true
	}
	if c.began.IsZero() {
		c.began, c.edge, c.still = now, now, true
	}
	for _, r := range t.runs {
		own := *r
		own.events = slices.Clone(r.events)
		c.runs = append(c.runs, &own)
	}
	return c
}

// recorded is a copy of a timeline.
type recorded struct {
	began, edge time.Time // what the picture shows: from the beginning to its present moment
	still       bool      // the present moment stays where it is, because nothing happens
	runs        []*run
	samples     []sample
	verdicts    [2]verdict
}
