package plaintest

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// sides is how many threads of the library, and goroutines of Holdfast, there are.
const sides = 4

// stress: threads of the library and goroutines of Holdfast keep a counter exact
// that nothing else protects.
func stress(s *scenario) { s.stress(s.locker(setting{}), 100, 1) }

// stressPolling: the same, with a Holdfast that asks as often as the library.
func stressPolling(s *scenario) {
	s.stress(s.locker(setting{poll: 5 * time.Millisecond}), 200, 10)
}

// stress lets each side do so many rounds, in which the lock has to come from the
// library to Holdfast at least that often.
func (s *scenario) stress(locker *holdfast.Locker, rounds int64, changes int) {
	counter := s.name + ":counter"
	client := redis.NewClient(&redis.Options{Addr: s.server.Addr()})
	defer client.Close()
	defer s.server.Int("DEL", counter, counter+":last")

	var answers []<-chan peer.Reply
	for i := range sides {
		answers = append(answers, s.tell(peer.Command{
			Op: "rounds", Thread: string(rune('a' + i)), N: rounds, Lease: long.Milliseconds(), Value: counter,
		}))
	}
	var working sync.WaitGroup
	var changed [sides]int
	for i := range sides {
		working.Go(func() { changed[i] = s.workRounds(locker, client, counter, rounds) })
	}
	working.Wait()
	for _, answer := range answers {
		if r := s.answer(answer, time.Minute); r.Err() != nil || r.Int() != rounds {
			s.Errorf("%s: got %s rounds and %v, want %d", s.library, r.Value, r.Err(), rounds)
		}
	}
	if got := s.server.Int("INCRBY", counter, "0"); got != 2*sides*rounds {
		s.Errorf("the counter: got %d, want %d", got, 2*sides*rounds)
	}
	total := 0
	for _, n := range changed {
		total += n
	}
	if total < changes {
		s.Errorf("the lock went from %s to Holdfast %d times, want at least %d: it was no contest", s.library, total, changes)
	}
	s.Logf("the lock went from %s to Holdfast %d times", s.library, total)
}

// workRounds returns how often the lock came from the library.
func (s *scenario) workRounds(locker *holdfast.Locker, client *redis.Client, counter string, rounds int64) (changed int) {
	for range rounds {
		err := locker.Mutex(s.name).Do(s.Context(), func(ctx context.Context, _ *holdfast.Lock) error {
			if client.Get(ctx, counter+":last").Val() == "peer" {
				changed++
			}
			return count(ctx, client, counter, "holdfast")
		})
		if err != nil {
			s.Errorf("round: %v", err)
			return changed
		}
		think()
	}
	return changed
}
