package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// serverFaults are those of the servers, as far as the deployment knows them.
func (n *nemesis) serverFaults() []fault {
	faults := []fault{
		{"scripts flushed", 2, (*strike).flushScripts},
		{"subscribers cut", 3, (*strike).cutSubscribers},
		{"clients cut", 2, (*strike).cutClients},
		{"client pause", 2, (*strike).pauseClients},
		{"server paused", 4, (*strike).pauseServer},
		{"memory full", 2, (*strike).fillMemory},
		{"lock deleted", 1, (*strike).deleteLock},
	}
	switch n.arena.name {
	case string(redistest.Sentinel):
		return append(faults, fault{"master killed", 3, (*strike).killMaster}, fault{"master lost", 2, (*strike).loseMaster},
			fault{"master hung", 2, (*strike).hangMaster},
			fault{"failover", 3, (*strike).failOver}, fault{"flushed", 1, (*strike).flush})
	case string(redistest.Cluster):
		return append(faults, fault{"master killed", 3, (*strike).killMaster}, fault{"master lost", 2, (*strike).loseMaster},
			fault{"master hung", 2, (*strike).hangMaster},
			fault{"failover", 3, (*strike).failOver}, fault{"slot moved", 4, (*strike).moveSlot},
			fault{"node came and went", 1, (*strike).joinAndLeave}, fault{"flushed", 1, (*strike).flush})
	case quorumOfFive:
		return append(faults, fault{"server killed", 5, (*strike).restart})
	case string(redistest.Standalone):
		return append(faults, fault{"server killed", 5, (*strike).restart}, fault{"memory lost", 1, (*strike).restartEmpty},
			fault{"clock jumped", 1, (*strike).jump}, fault{"flushed", 1, (*strike).flush})
	default:
		return append(faults, fault{"server killed", 5, (*strike).restart}, fault{"flushed", 1, (*strike).flush})
	}
}

// onServers says that the fault is not that of one worker alone.
func (s *strike) onServers() { s.window.process = -1 }

// target returns a server to break: the one that keeps the victim's lock, or any
// that is written to.
func (s *strike) target() (*redistest.Server, error) {
	s.onServers()
	if d := s.arena.parts[0]; s.name != "" && len(s.arena.parts) == 1 {
		return d.FindMaster(s.name)
	}
	masters, err := s.arena.masters()
	if err != nil || len(masters) == 0 {
		return nil, errors.Join(errors.New("no master"), err)
	}
	return masters[s.pick%uint64(len(masters))], nil
}

// several returns servers to break: of a quorum up to three of five.
func (s *strike) several() ([]*redistest.Server, error) {
	first, err := s.target()
	if err != nil || len(s.arena.parts) == 1 {
		return []*redistest.Server{first}, err
	}
	masters, err := s.arena.masters()
	if err != nil {
		return nil, err
	}
	s.random.Shuffle(len(masters), func(i, j int) { masters[i], masters[j] = masters[j], masters[i] })
	return masters[:min(len(masters), []int{1, 1, 2, 2, 3}[s.random.IntN(5)])], nil
}

func (s *strike) each(do func(*redistest.Server) error) error {
	targets, err := s.several()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := do(t); err != nil {
			return err
		}
	}
	return nil
}

// during breaks several servers, lets d pass, and fixes them.
func (s *strike) during(ctx context.Context, d func() time.Duration, harm, mend func(*redistest.Server)) error {
	targets, err := s.several()
	if err != nil {
		return err
	}
	for _, t := range targets {
		harm(t)
	}
	pause(ctx, d())
	for _, t := range targets {
		mend(t)
	}
	return nil
}

// losing breaks one server, which forgets what it acknowledged from now on.
func (s *strike) losing(harm func(*redistest.Server) error) error {
	t, err := s.target()
	if err != nil {
		return err
	}
	s.loses(t)
	return harm(t)
}

// takenOver waits until another server is master in place of t, and heals.
func (s *strike) takenOver(t *redistest.Server) error {
	if err := s.await(t); err != nil {
		return err
	}
	s.overOnce()
	return s.arena.heal()
}

func (s *strike) flushScripts(context.Context) error {
	return s.each(func(t *redistest.Server) error { return asError(t.Do("SCRIPT", "FLUSH", "SYNC")) })
}

func (s *strike) cutSubscribers(context.Context) error {
	return s.each(func(t *redistest.Server) error { return asError(t.Do("CLIENT", "KILL", "TYPE", "pubsub")) })
}

func (s *strike) cutClients(context.Context) error {
	return s.each(func(t *redistest.Server) error { return asError(t.Do("CLIENT", "KILL", "TYPE", "normal")) })
}

func (s *strike) pauseClients(ctx context.Context) error {
	d := s.bearable()
	err := s.each(func(t *redistest.Server) error {
		return asError(t.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL"))
	})
	pause(context.WithoutCancel(ctx), d) // UNPAUSE would have to wait too
	return err
}

// bearable is how long a server may be silent: where others take over, too short
// for that.
func (s *strike) bearable() time.Duration {
	if s.arena.failsOver() {
		return min(s.duration(), 300*time.Millisecond)
	}
	return s.duration()
}

func (s *strike) pauseServer(ctx context.Context) error {
	return s.during(ctx, s.bearable, (*redistest.Server).Pause, (*redistest.Server).Resume)
}

// fillMemory has servers refuse whatever needs memory, for so short a time that
// the model gets few calls without an answer.
func (s *strike) fillMemory(ctx context.Context) error {
	short := func() time.Duration { return min(s.duration(), 500*time.Millisecond) }
	return s.during(ctx, short, (*redistest.Server).FillMemory, (*redistest.Server).FreeMemory)
}

// restart kills servers and starts them again with all that they acknowledged.
func (s *strike) restart(ctx context.Context) error {
	down := func() time.Duration { return time.Duration(s.random.Int64N(int64(s.duration()))) }
	if err := s.during(ctx, down, (*redistest.Server).Kill, (*redistest.Server).Restart); err != nil {
		return err
	}
	return s.arena.heal()
}

// flush deletes everything: locks, marks and the counters of tokens.
func (s *strike) flush(context.Context) error {
	return s.losing(func(t *redistest.Server) error {
		defer s.lost()
		return asError(t.Do("FLUSHALL"))
	})
}

// deleteLock deletes the victim's lock, as a person might.
func (s *strike) deleteLock(context.Context) error {
	if s.name == "" || len(s.arena.parts) > 1 {
		return errNothing
	}
	t, err := s.target()
	if err != nil {
		return err
	}
	s.window.loses, s.window.name = true, s.name
	defer s.lost()
	return asError(t.Do("DEL", s.name))
}

// killMaster kills a master. Another server takes over, without what was not
// replicated yet.
func (s *strike) killMaster(context.Context) error {
	return s.losing(func(t *redistest.Server) error {
		t.Kill()
		s.lost()
		return s.takenOver(t)
	})
}

// loseMaster kills a master that has been cut off from its replicas: what was
// written meanwhile is lost for certain.
func (s *strike) loseMaster(ctx context.Context) error {
	return s.losing(func(t *redistest.Server) error {
		s.arena.parts[0].CutReplication(t)
		pause(ctx, 200*time.Millisecond)
		t.Kill()
		s.lost()
		return s.takenOver(t)
	})
}

// restartEmpty kills a server and starts it again without its memory.
func (s *strike) restartEmpty(context.Context) error {
	return s.losing(func(t *redistest.Server) error {
		t.Kill()
		s.lost()
		err := os.RemoveAll(filepath.Join(t.Dir(), "appendonlydir"))
		t.Restart()
		return err
	})
}

// jump sets the clock of a server forward, for good: back again, what was locked
// meanwhile would last for as long as the jump.
func (s *strike) jump(context.Context) error {
	if !s.arena.clock {
		return errNothing
	}
	return s.losing(func(t *redistest.Server) error {
		s.arena.ahead += time.Duration(1+s.random.IntN(60)) * time.Second
		t.ShiftClock(s.arena.ahead)
		s.lost()
		return nil
	})
}

// await waits until t is no master any more.
func (s *strike) await(t *redistest.Server) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		masters, err := s.arena.masters()
		if err == nil && len(masters) > 0 && !slices.ContainsFunc(masters, func(m *redistest.Server) bool { return m.Addr() == t.Addr() }) {
			return nil
		}
	}
	return errors.New("nobody took over within 30 s")
}

// failOver asks another server to take over. Sentinel does not wait for it to
// have everything; a cluster does.
func (s *strike) failOver(context.Context) error {
	t, err := s.target()
	if err != nil {
		return err
	}
	if s.arena.name == string(redistest.Sentinel) {
		s.loses(t)
	}
	if err := s.arena.parts[0].FailOver(s.key()); err != nil {
		return err
	}
	s.overOnce()
	defer s.lost() // until it is healed, the old master of Sentinel takes writes
	return s.arena.heal()
}

// hangMaster stops a master until another server has taken over. When it goes on,
// it takes writes until it has learned of that.
func (s *strike) hangMaster(context.Context) error {
	return s.losing(func(t *redistest.Server) error {
		t.Pause()
		if err := s.await(t); err != nil {
			return err
		}
		s.overOnce()
		defer s.lost()
		return s.arena.heal()
	})
}

// lost says that what is acknowledged from now on is not lost.
func (s *strike) lost() { s.window.lost = time.Now().UnixNano() }

func (s *strike) overOnce() {
	s.window.switched = time.Now().UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overs++
}

// key is the victim's lock, or any name.
func (s *strike) key() string {
	if s.name != "" {
		return s.name
	}
	return strconv.FormatUint(s.pick, 36)
}
