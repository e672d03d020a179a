package main

import (
	"context"
	"time"
)

// storeFaults are those of a server that is no Redis. It loses nothing that it
// acknowledged.
func storeFaults() []fault {
	return []fault{{"server paused", 4, (*strike).pauseStore}, {"server killed", 5, (*strike).restartStore}}
}

// linkFaults are those of one worker and of its connections, whatever they speak.
func linkFaults() []fault {
	return []fault{
		{"lost reply", 10, (*strike).loseReplies},
		{"cut", 4, (*strike).cutLinks},
		{"refused", 3, (*strike).refuse},
		{"black hole", 8, (*strike).blackHole},
		{"latency", 2, (*strike).latency},
		{"stopped", 5, (*strike).stop},
		{"killed", 4, (*strike).kill},
	}
}

func (s *strike) pauseStore(ctx context.Context) error {
	s.onServers()
	if err := s.arena.store.Pause(); err != nil {
		return err
	}
	pause(ctx, s.duration())
	return s.arena.store.Resume()
}

// restartStore kills the server, and starts it again with all that it acknowledged.
func (s *strike) restartStore(ctx context.Context) error {
	s.onServers()
	s.arena.store.Kill()
	pause(ctx, time.Duration(s.random.Int64N(int64(s.duration()))))
	return s.arena.store.Restart()
}

// loseReplies loses what the server answers next on each link, and the link with it.
func (s *strike) loseReplies(ctx context.Context) error {
	for _, m := range s.victim.mesh {
		m.LoseReplies(true)
	}
	pause(ctx, min(s.duration(), time.Second))
	for _, m := range s.victim.mesh {
		m.LoseReplies(false)
	}
	return nil
}

func (s *strike) cutLinks(context.Context) error {
	for _, m := range s.victim.mesh {
		m.CutAll()
	}
	return nil
}
