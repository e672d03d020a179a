package zkhold

import (
	"testing"
	"testing/synctest"
	"time"
)

// A session without claims ends when nobody uses it, and not during a call for people that
// takes longer than its whole time. One with claims ends all the same: only renewals keep
// those.
func TestLongViewKeepsItsSession(t *testing.T) {
	for name, test := range map[string]struct {
		nodes map[place]*node
		ends  time.Duration
	}{
		"without claims": {map[place]*node{}, 6 * time.Second},
		"with a claim":   {map[place]*node{{name: "job"}: {}}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &link{opts: &Options{}, ready: make(chan struct{}), quit: make(chan struct{}), timeout: 2 * time.Second, nodes: test.nodes}
				close(l.ready)
				s := &store{link: l}
				l.tasks = workers{calls: &s.tasks, goroutines: &s.clients, next: make(chan func()), quit: l.quit}
				began := time.Now()
				l.used()
				go func() {
					<-l.quit
					if took := time.Since(began); took != test.ends {
						t.Errorf("the session ended after %v, want %v", took, test.ends)
					}
				}()
				if _, err := view(t.Context(), s, func(*link) (any, error) {
					time.Sleep(5 * time.Second)
					return nil, nil
				}); err != nil {
					t.Fatal(err)
				}
				<-l.quit
			})
		})
	}
}
