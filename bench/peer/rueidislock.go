package peer

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLock has one key instead of three, and does not get its own
// writes: the settings with which it is fastest on one server.
func rueidisLock() Spec {
	return Spec{
		Name: "rueidislock", Client: "rueidis", Role: Other, Can: []Ability{Waits, Renews},
		Open: func(_ context.Context, t Target) (Peer, error) {
			locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{InitAddress: []string{t.Redis}},
				KeyValidity:  time.Duration(t.TTL), KeyMajority: 1, NoLoopTracking: true,
				TryNextAfter: time.Second, // there is no next key; the default would give up on a busy machine
			})
			if err != nil {
				return nil, err
			}
			return rueidislockPeer{locker}, nil
		},
	}
}

type rueidislockPeer struct{ locker rueidislock.Locker }

func (p rueidislockPeer) Lock(ctx context.Context, key string) (Held, error) {
	_, cancel, err := p.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return rueidislockHeld(cancel), nil
}

func (p rueidislockPeer) Close() { p.locker.Close() }

// rueidislockHeld is the function that unlocks. It cannot fail visibly.
type rueidislockHeld context.CancelFunc

func (h rueidislockHeld) Unlock() error {
	h()
	return nil
}
