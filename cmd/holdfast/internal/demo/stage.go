package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const mostSteps = 7

// stage is what the page shows of the scene of two instances at one moment.
type stage struct {
	axis
	Still    bool // nothing moves
	Headline string
	AllRun   bool // each instance has a process
	Lock     lockView
	Actors   [2]actor
	Steps    []step // the newest first
}

// lockView is the lock, as the store has it.
type lockView struct {
	Lane   leaseLane
	Holder string // "" if nobody holds the lock
	Silent bool   // the store does not answer
	Ends   int64  // when the lease ends, in ms since 1970
	Late   int64  // from this time on a renewal is late
	Lease  int64  // TTL in ms
	Left   int64  // in ms
}

// LeftText returns the rest of the lease for people, as the script of the dashboard writes it.
func (v lockView) LeftText() string { return fmt.Sprintf("%ds", (v.Left+500)/1000) }

// actor is one instance.
type actor struct {
	Number    int
	Lane      lane
	Processes []processView
	Controls  []control
	Hint      string // what a person may do next
	Verdict   verdict
}

// processView is a process that runs.
type processView struct {
	PID                 int
	Badge, Look         string
	TokenHead, TokenEnd string // the digits that both tokens on the page share, and the others
}

// control is a button for a fault, or for the end of a fault.
type control struct {
	Do, Text, Title string
	Strong          bool // the button is what a person wants now
}

// verdict is how the last request of an instance ended.
type verdict struct {
	Look, Badge, Text string
}

// step is an event in words.
type step struct{ At, Look, Text string }

// stageOf makes the stage from what is recorded.
func stageOf(rec recorded, lease time.Duration, canPause bool) stage {
	a := axisOf(rec, lease)
	st := stage{axis: a, Still: rec.still, Lock: rec.lock(a, lease), Steps: rec.steps(a)}
	holder := rec.holding()
	st.Headline = rec.headline(holder, st.Lock)
	st.AllRun = true
	for i := range st.Actors {
		n := i + 1
		act := actor{Number: n, Lane: laneOf(rec, a, n), Verdict: rec.verdicts[i]}
		running := rec.running(n)
		isHolder := false
		var states []state
		for _, r := range running {
			s := r.now()
			states = append(states, s)
			head, end := rec.token(s.token)
			act.Processes = append(act.Processes, processView{r.pid, s.label()[0], s.badge(), head, end})
			isHolder = isHolder || r == holder
		}
		st.AllRun = st.AllRun && len(running) > 0
		act.Controls = controls(states, isHolder, canPause)
		act.Hint = hint(states, isHolder)
		st.Actors[i] = act
	}
	return st
}

// running returns the processes of an instance that have not ended.
func (rec recorded) running(instance int) (running []*run) {
	for _, r := range rec.runs {
		if r.instance == instance && r.now().phase != ended {
			running = append(running, r)
		}
	}
	return running
}

// holding returns the process of this demo that holds the lock, by the last answer of the
// store, or nil. The process may be dead.
func (rec recorded) holding() *run { return holderIn(rec.runs, lastAnswer(rec.samples)) }

// lock returns the lock, as the last sample has it.
func (rec recorded) lock(a axis, lease time.Duration) lockView {
	v := lockView{Lane: leaseLaneOf(rec, a, lease), Lease: lease.Milliseconds()}
	if n := len(rec.samples); n > 0 {
		v.Silent = rec.samples[n-1].failed
	}
	all := holdsOf(rec.samples, lease)
	if len(all) == 0 || all[len(all)-1].projected.IsZero() || v.Silent {
		return v
	}
	h := all[len(all)-1]
	_, v.Holder = rec.holder(h.sample)
	v.Ends, v.Late = h.projected.UnixMilli(), h.projected.Add(-lease/2).UnixMilli()
	v.Left = max(h.projected.Sub(rec.edge), 0).Milliseconds()
	return v
}

// token returns the digits that the tokens of all processes on the page share, and the others.
func (rec recorded) token(token uint64) (head, end string) {
	if token == 0 {
		return "", ""
	}
	text := strconv.FormatUint(token, 10)
	shared := 0
	for _, r := range rec.runs {
		other := r.now().token
		if digits := strconv.FormatUint(other, 10); other != 0 && other != token && len(digits) == len(text) {
			n := 0
			for n < len(text) && text[n] == digits[n] {
				n++
			}
			if shared == 0 || n < shared {
				shared = n
			}
		}
	}
	return text[:shared], text[shared:]
}

// badge returns the look of the badge of a process in this state.
func (s state) badge() string {
	switch s.look() {
	case "holds":
		return "good"
	case "stuck":
		return "warning"
	case "over":
		return "danger"
	}
	return ""
}

// controls returns the buttons that can act on the processes of an instance. `isHolder` is
// whether one of them holds the lock.
func controls(states []state, isHolder, canPause bool) (all []control) {
	if len(states) == 0 {
		return nil
	}
	isPaused := slices.ContainsFunc(states, func(s state) bool { return s.paused })
	isCut := slices.ContainsFunc(states, func(s state) bool { return s.cut })
	well := isHolder && !isPaused && !isCut
	switch {
	case isPaused:
		all = append(all, control{"resume", "Resume", "the process goes on (SIGCONT)", true})
	case canPause:
		all = append(all, control{"pause", "Pause", "the process stands still (SIGSTOP)", well})
	}
	all = append(all, control{"kill", "Kill", "the process ends at once (SIGKILL)", well})
	if isCut {
		return append(all, control{wordMend, "Mend network", "the process reaches Redis again", true})
	}
	return append(all, control{wordCut, "Cut network", "the process does not reach Redis any more", well})
}

// hint returns what a person may do next with an instance, or what is going to happen.
func hint(states []state, isHolder bool) string {
	for _, s := range states {
		switch stuck := s.paused || s.cut; {
		case stuck && s.phase == holds:
			return "It cannot renew its lease. Wait …"
		case stuck && (s.phase == overdue || s.phase == aware):
			return "Its lease is over. Now let it go on:"
		}
	}
	if isHolder {
		return "It has the lock. Disturb it:"
	}
	return ""
}

// headline returns what a person must know first.
func (rec recorded) headline(holder *run, lock lockView) string {
	var say []string
	last := lastAnswer(rec.samples)
	switch {
	case lock.Silent:
		say = append(say, "Redis does not answer.")
	case holder != nil:
		say = append(say, holder.holding())
	case last.owner != "":
		say = append(say, fmt.Sprintf("%s holds the lock.", cmp.Or(last.note, "Another program")))
	default:
		say = append(say, "Nobody holds the lock.")
	}
	for n := 1; n <= 2; n++ {
		if text := rec.beside(n, holder); text != "" {
			say = append(say, text)
		}
	}
	return strings.Join(say, " ")
}

// holding says how the process holds the lock that the store says it has.
func (r *run) holding() string {
	s := r.now()
	name := fmt.Sprintf("Instance %d", r.instance)
	switch {
	case s.phase == ended:
		return name + " is dead, but has the lock until its lease ends."
	case s.paused:
		return name + " holds the lock, but is paused: it cannot renew the lease."
	case s.cut:
		return name + " holds the lock, but is cut off: it cannot renew the lease."
	}
	return name + " holds the lock and works."
}

// beside says what an instance does that does not hold the lock, or "".
func (rec recorded) beside(instance int, holder *run) string {
	name := fmt.Sprintf("Instance %d", instance)
	waiting := false
	for _, r := range rec.running(instance) {
		if r == holder {
			return ""
		}
		s := r.now()
		switch {
		case s.phase == overdue && s.paused:
			return name + " is paused: it does not know that its lease is over."
		case s.phase == overdue:
			return name + " works without the lock: it does not know yet that its lease is over."
		case s.phase == aware && s.cut:
			return name + " is cut off, and knows that it has lost the lock."
		case s.phase == aware:
			return name + " has noticed that it lost the lock."
		case s.phase == waits:
			waiting = true
		}
	}
	switch {
	case waiting:
		return name + " waits."
	case rec.verdicts[instance-1].Badge == badgeRefused:
		return fmt.Sprintf("The ledger has refused the late write of instance %d.", instance)
	}
	return ""
}

// steps returns the last events in words, the newest first.
func (rec recorded) steps(a axis) (all []step) {
	type moment struct {
		at time.Time
		step
	}
	var moments []moment
	for _, r := range rec.runs {
		s := r.first
		for _, e := range r.events {
			if look, text := s.tell(e, fmt.Sprintf("instance %d", r.instance)); text != "" {
				moments = append(moments, moment{e.at, step{a.seconds(e.at), look, strings.ToUpper(text[:1]) + text[1:]}})
			}
			s = s.after(e)
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return b.at.Compare(a.at) })
	for _, m := range moments[:min(len(moments), mostSteps)] {
		all = append(all, m.step)
	}
	return all
}

// tell returns an event in words, for a process in the state s. The text is "" if the event is
// of no interest.
func (s state) tell(e event, name string) (look, text string) {
	unrenewed := ""
	if s.phase == holds {
		unrenewed = " It cannot renew its lease."
	}
	switch e.kind {
	case started:
		return "", name + " asks for the lock."
	case held:
		return "good", fmt.Sprintf("%s gets the lock, with token %d.", name, e.token)
	case wrote:
		if s.phase != holds {
			return "warning", "the ledger accepts the late write of " + name + ": nobody has written since."
		}
		return "good", "the ledger accepts the write of " + name + "."
	case refused:
		return "danger", fmt.Sprintf("the ledger refuses the write of %s: it has seen the larger token %d.", name, e.token)
	case unlocked:
		return "good", name + " releases the lock."
	case lost:
		return "danger", name + " notices that it has lost the lock. It writes nevertheless."
	case leaseOver:
		return "warning", "the lease of " + name + " ends in Redis."
	case paused:
		return "warning", name + " is paused." + unrenewed
	case resumed:
		return "", name + " goes on."
	case cutOff:
		return "warning", name + " is cut off from Redis." + unrenewed
	case connected:
		return "", name + " reaches Redis again."
	case killed:
		if s.phase == holds {
			return "danger", name + " is killed. It cannot release the lock."
		}
		return "danger", name + " is killed."
	case failed, died:
		if s.phase != ended {
			return "danger", name + " fails."
		}
	}
	return "", ""
}

// Badges of verdicts.
const (
	badgeDone     = "done"
	badgeRefused  = "late write refused"
	badgeAccepted = "late write accepted"
)

// verdictOf returns how a request ended, for people.
func verdictOf(r *claimResult) verdict {
	text := strings.ToUpper(r.String()[:1]) + r.String()[1:]
	switch {
	case r.Outcome == outcomeDone:
		return verdict{"good", badgeDone, text}
	case r.Outcome == outcomeLost && r.Write == refused:
		return verdict{"warning", badgeRefused, text}
	case r.Outcome == outcomeLost && r.Write == wrote:
		return verdict{"warning", badgeAccepted, text}
	}
	return verdict{"danger", r.Outcome, text}
}
