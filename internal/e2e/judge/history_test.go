package judge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// told is one acquisition for a history made by hand: instants in milliseconds.
type told struct {
	process             int
	side                Side
	token               uint64
	called, granted, to int64
	lost                bool // to is when the holder was notified, not when it called Unlock
}

func made(tolds []told, more ...Event) *History {
	events := more
	for i, t := range tolds {
		e := Event{Op: int64(i + 1), Name: "a", Side: t.side, Token: t.token, Process: t.process}
		add := func(what string, ms int64) {
			e.What, e.At = what, ms*1e6
			events = append(events, e)
		}
		add(Called, t.called)
		add(Granted, t.granted)
		if t.lost {
			add(Lost, t.to)
			add(Unlock, t.to+50)
		} else if t.to > 0 {
			add(Unlock, t.to)
			add(Unlocked, t.to+1)
		}
	}
	return New(events)
}

// The checker accepts what is right and finds what is wrong.
func TestCheckerOfHistories(t *testing.T) {
	whole := func(what string, process int, ms int64) Event {
		return Event{At: ms * 1e6, What: what, Op: -1, Process: process}
	}
	killed := whole(Killed, 1, 30)
	stopped := []Event{whole(Paused, 1, 30), whole(Resumed, 1, 80)}
	for name, test := range map[string]struct {
		history *History
		want    string // in the violation; "" for none
	}{
		"one after the other": {made([]told{{1, Exclusive, 1, 0, 10, 20, false}, {2, Exclusive, 2, 5, 21, 30, false}}), ""},
		"released and granted before Unlock has returned": {
			made([]told{{1, Exclusive, 1, 0, 10, 20, false}, {2, Exclusive, 2, 5, 20, 30, false}}), "",
		},
		"two at once":         {made([]told{{1, Exclusive, 1, 0, 10, 20, false}, {2, Exclusive, 2, 5, 19, 30, false}}), "at the same time"},
		"one inside another":  {made([]told{{1, Exclusive, 1, 0, 10, 90, false}, {2, Exclusive, 2, 5, 19, 30, false}}), "at the same time"},
		"one never unlocked":  {made([]told{{1, Exclusive, 1, 0, 10, 0, false}, {2, Exclusive, 2, 5, 900, 950, false}}), "at the same time"},
		"told of a loss":      {made([]told{{1, Exclusive, 1, 0, 10, 20, true}, {2, Exclusive, 2, 5, 21, 30, false}}), ""},
		"told too late":       {made([]told{{1, Exclusive, 1, 0, 10, 25, true}, {2, Exclusive, 2, 5, 21, 30, false}}), "at the same time"},
		"killed":              {made([]told{{1, Exclusive, 1, 0, 10, 0, false}, {2, Exclusive, 2, 5, 31, 40, false}}, killed), ""},
		"another was killed":  {made([]told{{2, Exclusive, 1, 0, 10, 0, false}, {3, Exclusive, 2, 5, 31, 40, false}}, killed), "at the same time"},
		"stopped":             {made([]told{{1, Exclusive, 1, 0, 10, 85, true}, {2, Exclusive, 2, 5, 50, 100, false}}, stopped...), ""},
		"stopped, told late":  {made([]told{{1, Exclusive, 1, 0, 10, 95, true}, {2, Exclusive, 2, 5, 50, 100, false}}, stopped...), "at the same time"},
		"stopped, not yet so": {made([]told{{1, Exclusive, 1, 0, 10, 85, true}, {2, Exclusive, 2, 5, 29, 35, false}}, stopped...), "at the same time"},

		"readers together":         {made([]told{{1, Reader, 1, 0, 10, 30, false}, {2, Reader, 2, 5, 12, 40, false}}), ""},
		"a writer among readers":   {made([]told{{1, Reader, 1, 0, 10, 30, false}, {2, Reader, 2, 0, 10, 15, false}, {3, Writer, 3, 5, 20, 40, false}}), "at the same time"},
		"a reader beside a writer": {made([]told{{1, Writer, 1, 0, 10, 30, false}, {2, Reader, 2, 5, 20, 40, false}}), "at the same time"},
		"two writers":              {made([]told{{1, Writer, 1, 0, 10, 30, false}, {2, Writer, 2, 5, 20, 40, false}}), "at the same time"},

		"three permits of three": {made([]told{{1, Permit, 1, 0, 10, 30, false}, {2, Permit, 2, 5, 11, 40, false}, {3, Permit, 3, 5, 12, 40, false}}), ""},
		"four permits of three": {
			made([]told{{1, Permit, 1, 0, 10, 30, false}, {2, Permit, 2, 0, 11, 40, false}, {3, Permit, 3, 0, 12, 40, false}, {4, Permit, 4, 0, 29, 40, false}}),
			"of 3 permits",
		},

		"the same token":               {made([]told{{1, Exclusive, 7, 0, 10, 20, false}, {2, Exclusive, 7, 5, 21, 30, false}}), "tokens"},
		"a smaller token":              {made([]told{{1, Exclusive, 7, 0, 10, 20, false}, {2, Exclusive, 6, 5, 21, 30, false}}), "tokens"},
		"a reader below a writer":      {made([]told{{1, Writer, 7, 0, 10, 20, false}, {2, Reader, 6, 5, 21, 30, false}}), "tokens"},
		"a writer below a reader":      {made([]told{{1, Reader, 7, 0, 10, 20, false}, {2, Writer, 6, 5, 21, 30, false}}), "tokens"},
		"readers in another order":     {made([]told{{1, Reader, 7, 0, 10, 20, false}, {2, Reader, 6, 5, 21, 30, false}}), ""},
		"a reader that asked later":    {made([]told{{1, Reader, 7, 0, 10, 20, false}, {2, Reader, 6, 11, 12, 30, false}}), "tokens"},
		"a permit asked for later":     {made([]told{{1, Permit, 7, 0, 10, 20, false}, {2, Permit, 7, 11, 12, 30, false}}), "tokens"},
		"below one from long ago":      {made([]told{{1, Writer, 9, 0, 1, 2, false}, {2, Reader, 10, 3, 4, 5, false}, {3, Reader, 8, 3, 6, 7, false}}), "tokens"},
		"permits out of order, nearly": {made([]told{{1, Permit, 7, 0, 10, 20, false}, {2, Permit, 6, 10, 12, 30, false}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.history.Check(Rules{Permits: 3}).Err()
			switch {
			case test.want == "" && got != nil:
				t.Errorf("found a violation where there is none: %v", got)
			case test.want != "" && got == nil:
				t.Errorf("found nothing, want %q", test.want)
			case test.want != "" && !strings.Contains(got.Error(), test.want):
				t.Errorf("got %v, want %q", got, test.want)
			case test.want != "" && !strings.Contains(got.Error(), Granted):
				t.Errorf("the violation does not show the events: %v", got)
			}
		})
	}
}

// limit is what the model may take for one name.
const limit = 20 * time.Second

// leaky is a store that now and then grants what is held.
type leaky struct{ driver.Backend }

func (b leaky) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	out, err := b.Backend.Try(ctx, c)
	if err == nil && !out.Granted && rand.N(50) == 0 {
		return driver.Outcome{Granted: true, Token: rand.Uint64N(1 << 50), ValidFor: c.TTL}, nil
	}
	return out, err
}

// A lock that is broken is found out from what its users saw, and one that is
// not is not.
func TestCheckerFindsABrokenLock(t *testing.T) {
	for name, test := range map[string]struct {
		store driver.Backend
		want  bool
	}{
		"whole":  {memhold.New(), true},
		"broken": {leaky{memhold.New()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := hammer(t, test.store)
			s := h.Check(Rules{})
			if (s.Err() == nil) != test.want || s.Holds < 1000 {
				t.Errorf("the sweep over %d holds: %v", s.Holds, s.Err())
			}
			err := h.Linearizable(limit, nil).Err()
			if (err == nil) != test.want {
				t.Errorf("the model: %v", err)
			}
		})
	}
}

// hammer lets some Lockers compete for a few names.
func hammer(t *testing.T, store driver.Backend) *History {
	var out bytes.Buffer
	log := NewRecorder(&out)
	var wg sync.WaitGroup
	for range 4 {
		l := holdfast.New(store, nil)
		wg.Go(func() {
			for i := range 300 {
				name := []string{"a", "b", "c", "d"}[i/75]
				err := log.Hold(t.Context(), Request{Name: name, Side: Exclusive, Lease: 30 * time.Second, Lock: func(ctx context.Context) (*holdfast.Lock, error) {
					return l.TryLock(ctx, name, holdfast.Wait(time.Second))
				}}, rand.N(200*time.Microsecond))
				if err != nil && !errors.Is(err, holdfast.ErrBusy) && !errors.Is(err, holdfast.ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var events []Event
	for lines := json.NewDecoder(&out); lines.More(); {
		var e Event
		if err := lines.Decode(&e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return New(events)
}

// The model accepts 40 histories of a simulated lock, and none of 40 each with
// one mistake.
func TestModelIsSharp(t *testing.T) {
	for mistake, want := range map[string]int{"": 40, "double grant": 0, "token repeated": 0, "busy though free": 0, "short lease": 0} {
		accepted := 0
		for seed := range uint64(40) {
			sim := simulation{rand: rand.New(rand.NewPCG(seed, 1)), mistake: mistake}
			h := New(sim.run(4, 300))
			if mistake != "" && !sim.made {
				t.Errorf("seed %d: no opportunity for %q", seed, mistake)
			}
			if err := h.Linearizable(limit, nil).Err(); err == nil {
				accepted++
			}
		}
		if accepted != want {
			t.Errorf("with the mistake %q: %d of 40 histories accepted, want %d", mistake, accepted, want)
		}
	}
}

// An acquisition that was tried again may have held the lock before, unknown to
// anybody: that explains who found it busy, but not for longer than it was tried.
func TestModelOfALostAnswer(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, test := range map[string]struct {
		busy int64 // when another found the lock busy
		want bool
	}{
		"while it was tried":  {20, true},
		"before it was tried": {2, false},
		"after the release":   {140, false},
	} {
		t.Run(name, func(t *testing.T) {
			event := func(at int64, what string, process int, op int64, token uint64, err string) Event {
				return Event{At: at * ms, What: what, Op: op, Name: "a", Side: Exclusive, Lease: 50 * ms, Token: token, Err: err, Process: process}
			}
			h := New([]Event{
				event(10, Called, 1, 1, 0, ""), event(120, Granted, 1, 1, 3, ""), event(130, Unlock, 1, 1, 0, ""), event(131, Unlocked, 1, 1, 0, ""),
				event(test.busy, Called, 2, 1, 0, ""), event(test.busy+1, Failed, 2, 1, 0, "busy"),
				event(80, Called, 2, 2, 0, ""), event(90, Granted, 2, 2, 2, ""), event(95, Unlock, 2, 2, 0, ""), event(96, Unlocked, 2, 2, 0, ""),
			})
			if err := h.Linearizable(limit, nil).Err(); (err == nil) != test.want {
				t.Errorf("got %v, want accepted: %v", err, test.want)
			}
		})
	}
}

// Calls without an answer, which may have had their effect at any time or never, do not
// keep the checker from a verdict, also where many waited.
func TestModelOfUnansweredCalls(t *testing.T) {
	const ms, n = int64(time.Millisecond), 12
	for name, test := range map[string]struct {
		busy int64 // when somebody found the lock busy
		want bool
	}{
		"legal":     {30, true},
		"not legal": {5, false},
	} {
		t.Run(name, func(t *testing.T) {
			var events []Event
			event := func(at int64, what string, op, lease int64, token uint64, err string) {
				events = append(events, Event{At: at * ms, What: what, Op: op, Name: "a", Side: Exclusive, Lease: lease * ms, Token: token, Err: err, Process: 1})
			}
			event(test.busy, Called, 1, 1000, 0, "")
			event(test.busy+1, Failed, 1, 1000, 0, "busy")
			event(10, Called, 2, 1000, 0, "")
			event(20, Granted, 2, 1000, 1, "")
			for i := range int64(n) {
				waiter, lost := 10+i, 100+i
				event(40+i, Called, waiter, 4000, 0, "")
				event(2000+10*i, Granted, waiter, 4000, uint64(2+i), "")
				event(2004+10*i, Unlock, waiter, 4000, 0, "")
				event(2005+10*i, Unlocked, waiter, 4000, 0, "")
				event(60+i, Called, lost, 500, 0, "")
				event(500+i, Failed, lost, 500, 0, "no answer")
			}
			event(700, Unlock, 2, 1000, 0, "")
			event(1500, Unlocked, 2, 1000, 0, "")
			slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
			h := New(events)
			for i := range h.Operations {
				h.Operations[i].Late = h.Operations[i].Failed != Never && h.Operations[i].Failure != "busy"
			}
			if j := h.Linearizable(time.Second, nil); j.Undecided > 0 || (len(j.Violations) == 0) != test.want {
				t.Errorf("%d names undecided, violations %v, want accepted: %v", j.Undecided, j.Violations, test.want)
			}
		})
	}
}

// simulation is a lock and its users in a time of their own.
type simulation struct {
	rand    *rand.Rand
	mistake string
	made    bool // the mistake

	events  []Event
	owner   int64
	ends    int64 // of the lease
	token   uint64
	clients []simulated
}

// simulated is a user: at next it does its next step.
type simulated struct {
	next  int64
	op    int64
	asked int64 // when it called
	state string
}

const simulatedLease = int64(50 * time.Millisecond)

func (s *simulation) run(clients, steps int) []Event {
	s.clients = make([]simulated, clients)
	for i := range s.clients {
		s.clients[i].next = s.rand.Int64N(1e6)
	}
	var op int64
	for range steps * clients {
		first := 0
		for i, c := range s.clients {
			if c.next < s.clients[first].next {
				first = i
			}
		}
		if s.clients[first].state == "" {
			op++
			s.clients[first].op = op
		}
		s.step(&s.clients[first], first)
	}
	return s.events
}

func (s *simulation) step(c *simulated, process int) {
	write := func(at int64, what string, token uint64, err string) {
		s.events = append(s.events, Event{
			At: at, What: what, Op: c.op, Name: "a", Side: Exclusive,
			Token: token, Err: err, Lease: simulatedLease, Process: process,
		})
	}
	now := c.next
	soon := func() int64 { return now + 1e4 + s.rand.Int64N(5e5) }
	switch c.state {
	case "": // ask
		write(now, Called, 0, "")
		c.asked, c.state, c.next = now, "try", soon()
	case "try": // the store decides here, and the answer comes soon
		back, right := soon(), !s.made
		if s.decide(c, now) {
			write(back, Granted, s.token, "")
			c.state, c.next = "hold", back+1e6+s.rand.Int64N(4e6)
			if s.rand.IntN(5) == 0 { // forgets it
				c.state, c.next = "", back+simulatedLease*2
			}
			return
		}
		if right && s.made {
			back = now + 1 // nobody comes in between
		}
		write(back, Failed, 0, "busy")
		c.state, c.next = "", back+s.rand.Int64N(2e6)
	case "hold":
		write(now, Unlock, 0, "")
		c.state, c.next = "release", soon()
	case "release":
		back, word := soon(), ""
		if s.owner == c.op {
			s.owner = 0
		} else {
			word = "lost"
		}
		write(back, Unlocked, 0, word)
		c.state, c.next = "", back+s.rand.Int64N(2e6)
	}
}

// decide grants or refuses the lock, with one mistake, somewhere in the middle.
func (s *simulation) decide(c *simulated, now int64) bool {
	free := s.owner == 0 || s.ends <= now
	late := len(s.events) > 60 && !s.made
	if late && s.mistake == "busy though free" && s.owner == 0 && s.quiet(c) {
		s.made = true
		return false
	}
	switch {
	case !free && late && s.mistake == "double grant" && s.holding(now):
		s.made = true
	case !free && late && s.mistake == "short lease" && s.ends-now < simulatedLease/2 && s.ends-now > simulatedLease/4:
		s.made = true
	case !free:
		return false
	}
	s.owner, s.ends = c.op, now+simulatedLease
	if late && s.mistake == "token repeated" && s.token > 0 {
		s.made = true
		return true
	}
	s.token++
	return true
}

// holding says that the owner has had its answer and will not unlock soon.
func (s *simulation) holding(now int64) bool {
	for _, c := range s.clients {
		if c.op == s.owner && c.state == "hold" && c.next > now+1e6 {
			return true
		}
	}
	return false
}

// quiet says that nothing else has happened since c asked that would explain a
// wrong answer.
func (s *simulation) quiet(c *simulated) bool {
	asking := 0
	for _, other := range s.clients {
		if other.state == "try" || other.state == "release" {
			asking++
		}
	}
	for _, e := range s.events {
		if e.At >= c.asked && e.Op != c.op {
			return false
		}
	}
	return asking == 1
}
