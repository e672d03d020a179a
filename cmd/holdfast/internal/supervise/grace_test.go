package supervise

import (
	"testing"
	"time"
)

// The time that a command has to end is taken from the lease that the store grants: a
// renewal may be late by a fifth of it at least, and a chosen time is kept where it can be.
func TestGraceOfWhatTheStoreGrants(t *testing.T) {
	for _, test := range []struct {
		name                 string
		ttl, left, killAfter time.Duration
		chosen               bool
		want                 time.Duration
	}{
		{"as asked for", 30 * time.Second, 27 * time.Second, 0, false, 10 * time.Second},
		{"ZooKeeper, default tick", 30 * time.Second, 18 * time.Second, 0, false, 20 * time.Second / 3},
		{"ZooKeeper, session of 40 s", 5 * time.Minute, 24 * time.Second, 0, false, 80 * time.Second / 9},
		{"session of 10 s", 30 * time.Second, 6 * time.Second, 0, false, 20 * time.Second / 9},
		{"chosen, fits", 30 * time.Second, 18 * time.Second, 8 * time.Second, true, 8 * time.Second},
		{"chosen, too long", 30 * time.Second, 6 * time.Second, 10 * time.Second, true, 20 * time.Second / 9},
	} {
		o := &runner{session: session{Lock: &Lock{TTL: test.ttl}}, Command: &Command{KillChosen: test.chosen, KillAfter: test.killAfter}}
		if !test.chosen {
			o.KillAfter = min(10*time.Second, test.ttl/3)
		}
		lease := o.leaseOf(test.left)
		got := o.graceFor(lease)
		if d := got - test.want; d > time.Millisecond || d < -time.Millisecond {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
		if late := test.left - lease/3 - got; !test.chosen && late < lease/5 {
			t.Errorf("%s: a renewal may be %v late, want a fifth of the lease of %v", test.name, late, lease)
		}
	}
}
