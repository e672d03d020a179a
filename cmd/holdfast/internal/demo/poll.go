package demo

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// Times of the polls that ask the store who holds the lock.
const (
	pollEvery   = 250 * time.Millisecond
	pollLeast   = 25 * time.Millisecond // the least time between two polls, however much happens
	pollTimeout = 800 * time.Millisecond
)

// poll asks the store who holds the lock, again and again, and records the answers in the
// timeline. It asks while a process runs or somebody looks at the page, and right after each
// event of a process. The number of browsers makes no difference. It returns when ctx ends.
func (s *site) poll(ctx context.Context) {
	console := admin.New(s.Servers[0].backend)
	regular := time.NewTicker(pollEvery)
	defer regular.Stop()
	least := time.NewTicker(pollLeast)
	defer least.Stop()
	for {
		select {
		case <-regular.C:
		case <-s.timeline.nudge:
		case <-ctx.Done():
			return
		}
		if s.timeline.wanted(time.Now()) {
			limited, cancel := context.WithTimeout(ctx, pollTimeout)
			records, err := console.Get(limited, pageLock)
			cancel()
			s.timeline.sample(sampleOf(records, err, time.Now()))
		}
		select {
		case <-least.C:
		case <-ctx.Done():
			return
		}
	}
}

// sampleOf returns what the store has answered about the lock.
func sampleOf(records []admin.Record, err error, now time.Time) sample {
	s := sample{at: now, failed: err != nil || len(records) == 0}
	if s.failed || len(records[0].Holds) == 0 || records[0].Holders == 0 {
		return s
	}
	h := records[0].Holds[0]
	s.owner, s.note, s.pid, s.until = h.Owner, h.Note, h.Client.PID, now.Add(max(h.Remaining, 0))
	return s
}
