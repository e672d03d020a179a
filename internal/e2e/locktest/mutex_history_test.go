package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

const mutexTTL = time.Second

// Processes take mutexes in every way. Some are killed meanwhile, and the server stands
// still once. One lock with a lease and a token explains what they saw.
func TestMutexHistory(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		c := newCrew(s)
		hire := func() *member {
			return c.hire("mutexes", plan{Actors: 4, TTL: mutexTTL, Seed: rand.Uint64()})
		}
		for range 4 {
			hire().await(judge.Granted)
		}
		s.server.Pause() // so long that calls end without an answer, and leases
		time.Sleep(2 * mutexTTL)
		s.server.Resume()
		kills := c.harass(8, 400*time.Millisecond, hire)
		c.stop()
		h := c.finish()

		swept := h.Check(judge.Rules{})
		if swept.Err() != nil {
			s.Errorf("violation: %v", swept.Err())
		}
		judged := h.Linearizable(20*time.Second, nil)
		if err := judged.Err(); err != nil {
			s.Errorf("violation: %v", err)
		}
		if judged.Operations < 1000 || judged.Unknown > judged.Operations/10 || kills < 5 {
			s.Errorf("%d operations, %d of them unknown, %d kills: too little to judge", judged.Operations, judged.Unknown, kills)
		}
		gone(s, s.server.Admin, 2*time.Second)
		s.Logf("%d holds, %d kills; the model has judged %d operations, %d of them unknown", swept.Holds, kills, judged.Operations, judged.Unknown)
	})
}

// harass kills members at random, one every while, and hires others instead. It
// returns how many it has killed.
func (c *crew) harass(times int, every time.Duration, hire func() *member) int {
	alive := slices.Clone(c.members)
	kills := 0
	for range times {
		time.Sleep(every/2 + rand.N(every))
		i := rand.IntN(len(alive))
		select {
		case <-alive[i].Done(): // it has done all it had to
			continue
		default:
		}
		alive[i].Kill()
		kills++
		alive[i] = hire()
	}
	return kills
}

// useMutexes takes mutexes of few names, which change with time so that no
// history of one name gets long.
func useMutexes(w *worker) error {
	var wg sync.WaitGroup
	errs := make([]error, w.Actors)
	for i := range w.Actors {
		l := w.locker() // one each: TryLock then answers what Redis says
		wg.Go(func() {
			random := rand.New(rand.NewPCG(w.Seed, uint64(i)))
			for w.ctx.Err() == nil {
				name := fmt.Sprintf("mutex:%d:%d", time.Now().UnixMilli()/300, random.IntN(6))
				if err := w.useMutex(l, name, random); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (w *worker) useMutex(l *holdfast.Locker, name string, random *rand.Rand) error {
	a := judge.Request{Name: name, Side: judge.Exclusive, Lease: w.TTL, Lock: func(ctx context.Context) (*holdfast.Lock, error) { return l.Lock(ctx, name) }}
	keep := time.Duration(random.IntN(2000)) * time.Microsecond
	var err error
	switch n := random.IntN(1000); {
	case n < 700:
		a.Lock = func(ctx context.Context) (*holdfast.Lock, error) { return l.TryLock(ctx, name) }
		err = w.log.Hold(w.ctx, a, keep)
	case n < 720:
		a.Lock = func(ctx context.Context) (*holdfast.Lock, error) {
			k, err := l.TryLock(ctx, name, holdfast.Wait(20*time.Millisecond))
			if err != nil { // its last try may have been granted, and is released
				err = errors.New("unknown: " + err.Error()) // not busy: that would be an answer
			}
			return k, err
		}
		if err = w.log.Hold(w.ctx, a, keep); err != nil && !errors.Is(err, holdfast.ErrLost) {
			return nil
		}
	case n < 975:
		err = w.log.Hold(w.ctx, a, keep)
	case n < 977: // longer than a lease that nobody renews
		err = w.log.Hold(w.ctx, a, w.TTL*3/2)
	default: // ends without Unlock
		a.Lease, a.Fixed = 150*time.Millisecond, true
		a.Lock = func(ctx context.Context) (*holdfast.Lock, error) {
			return l.TryLock(ctx, name, holdfast.Lease(a.Lease))
		}
		var k *holdfast.Lock
		if k, _, err = w.log.Take(w.ctx, a); err == nil {
			<-k.Context(w.ctx).Done()
		}
	}
	return w.judged(err)
}
