package main

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
)

// clientFaults are those of one worker and of its connections.
func clientFaults() []fault {
	return []fault{
		{"lost reply", 6, rule(faultproxy.CutAfterExecution())},
		{"held reply", 4, rule(faultproxy.HoldReply())},
		{"delayed request", 4, rule(faultproxy.DelayRequest(0))},
		{"lost request", 2, (*strike).loseRequest},
		{"cut", 2, rule(faultproxy.Cut())},
		{"reset", 2, rule(faultproxy.ResetMidCommand())},
		{"late then cut", 2, (*strike).lateThenCut},
		{"refused", 3, (*strike).refuse},
		{"black hole", 8, (*strike).blackHole},
		{"latency", 2, (*strike).latency},
		{"stopped", 4, (*strike).stop},
		{"killed", 6, (*strike).kill},
	}
}

// scripts matches the runs of all scripts.
func scripts(cmd []string) bool { return faultproxy.Command("EVALSHA", "EVAL")(cmd) }

// shortly is how long a rule waits for a script to come by.
const shortly = 300 * time.Millisecond

// rule does action to the next script of the victim on each of its links, until
// the fault is over.
func rule(action faultproxy.Action) func(*strike, context.Context) error {
	return func(s *strike, ctx context.Context) error {
		var rules []*faultproxy.Rule
		for _, p := range s.victim.mesh.proxies() {
			rules = append(rules, p.On(scripts, action))
		}
		pause(ctx, max(shortly, s.duration()))
		fired := 0
		for _, r := range rules {
			r.Release()
			fired += r.Count()
		}
		if fired == 0 {
			return errNothing
		}
		return nil
	}
}

// loseRequest makes a request vanish, and with it all that follows on that
// connection; then the link breaks.
func (s *strike) loseRequest(ctx context.Context) error {
	err := rule(faultproxy.DropRequest())(s, ctx)
	if err == nil {
		for _, m := range s.victim.mesh {
			m.CutAll()
		}
	}
	return err
}

// lateThenCut holds a reply back and breaks the link in place of it.
func (s *strike) lateThenCut(ctx context.Context) error {
	var rules []*faultproxy.Rule
	for _, p := range s.victim.mesh.proxies() {
		rules = append(rules, p.On(scripts, faultproxy.HoldReply()))
	}
	pause(ctx, s.duration()/2)
	for _, m := range s.victim.mesh {
		m.CutAll()
	}
	for _, r := range rules {
		r.Release()
	}
	return nil // the links were cut in any case
}

// refuse breaks all links and makes no new ones.
func (s *strike) refuse(ctx context.Context) error {
	for _, m := range s.victim.mesh {
		m.RefuseNew()
		m.CutAll()
	}
	pause(ctx, s.duration())
	for _, m := range s.victim.mesh {
		if err := m.Accept(); err != nil {
			return err
		}
	}
	return nil
}

func (s *strike) blackHole(ctx context.Context) error {
	for _, m := range s.victim.mesh {
		m.Blackhole(true)
	}
	pause(ctx, s.duration())
	for _, m := range s.victim.mesh {
		m.Blackhole(false)
	}
	return nil
}

func (s *strike) latency(ctx context.Context) error {
	d := time.Duration(1+s.random.IntN(100)) * time.Millisecond
	for _, m := range s.victim.mesh {
		m.Latency(d)
	}
	pause(ctx, s.duration())
	for _, m := range s.victim.mesh {
		m.Latency(0)
	}
	return nil
}

// stop is SIGSTOP.
func (s *strike) stop(ctx context.Context) error {
	s.victim.Pause()
	pause(ctx, s.duration())
	s.victim.Resume()
	return nil
}

// kill is SIGKILL. Another worker takes the place.
func (s *strike) kill(context.Context) error {
	if s.victim.slot == immortal {
		return errNothing
	}
	return s.workers.replace(s.victim)
}
