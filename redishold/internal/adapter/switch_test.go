package adapter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

// fakeSentinels is a client of one server that another replaces.
type fakeSentinels struct {
	*fakeCluster

	mu     sync.Mutex
	master string
}

func (f *fakeSentinels) Master() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.master
}

func (f *fakeSentinels) elect(master string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.master = master
}

// A call to a server that hangs ends soon after the client goes to another server, if an
// earlier call without a reply has started the polls.
func TestCallEndsWithItsServer(t *testing.T) {
	for name, do := range ways {
		for _, replicas := range []int{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeSentinels{fakeCluster: &fakeCluster{single: true, hang: "a:1"}, master: "a:1"}
				r := newConnTo(f)
				call := func(limit time.Duration) redishold.Result {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					return do(r, ctx, &redishold.Call{Keys: []string{"a1"}, Replicas: replicas})
				}
				if err := call(time.Second).Err; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: got error %v from a server that hangs", name, err)
				}
				time.AfterFunc(time.Second, func() { f.elect("b:1") })
				began := time.Now()
				err := call(30 * time.Second).Err
				took := time.Since(began)
				if !errors.Is(err, errDeposed) || errors.Is(err, driver.ErrNotExecuted) || took > time.Second+masterPollEvery+redirectGrace {
					t.Errorf("%s, replicas %d: got error %v after %v, want %v within %v", name, replicas, err, took, errDeposed, time.Second+masterPollEvery+redirectGrace)
				}
				time.Sleep(10 * time.Minute) // for what still hangs
			})
		}
	}
}

// A call that was made after the change is not given up, however long it takes.
func TestCallToTheNewServerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSentinels{fakeCluster: &fakeCluster{single: true, hang: "a:1", silence: 10 * time.Second}, master: "a:1"}
		r := newConnTo(f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.DoOne(ctx, callFor("a1"))
		f.elect("b:1")
		time.Sleep(masterPollEvery + time.Millisecond)
		if r := r.DoOne(t.Context(), callFor("a1")); r.Err != nil {
			t.Errorf("got error %v", r.Err)
		}
	})
}

// Polls end after a while, and do not start if the master cannot change.
func TestPollsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, master := range []string{"", "a:1"} {
			f := &fakeSentinels{fakeCluster: &fakeCluster{single: true, fail: errors.New("broken")}, master: master}
			r := newConnTo(f)
			r.DoOne(t.Context(), callFor("a1"))
			if r.masters == nil {
				if master != "" {
					t.Error("nothing polls the master")
				}
				continue
			}
			if r.masters.Changed() == nil {
				t.Error("no poll is planned after a call without a reply")
			}
			time.Sleep(masterPollFor + 2*masterPollEvery)
			if r.masters.Changed() != nil {
				t.Error("a poll is still planned")
			}
		}
	})
}
