package zkhold

import (
	"testing"
	"testing/synctest"
	"time"
)

// A session without claims ends if it is not used, but not during a call for operators that
// takes longer than its timeout. A session with claims ends even then: only renewals keep
// claims.
func TestLongViewKeepsItsSession(t *testing.T) {
	for name, test := range map[string]struct {
		nodes map[nodeKey]*node
		ends  time.Duration
	}{
		"without claims": {map[nodeKey]*node{}, 6 * time.Second},
		"with a claim":   {map[nodeKey]*node{{name: "job"}: {}}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &link{opts: &Options{}, ready: make(chan struct{}), quit: make(chan struct{}), timeout: 2 * time.Second, nodes: test.nodes}
				close(l.ready)
				s := &store{link: l}
				l.tasks = workers{calls: &s.tasks, goroutines: &s.clients, next: make(chan func()), quit: l.quit}
				began := time.Now()
				l.touch()
				go func() {
					<-l.quit
					if took := time.Since(began); took != test.ends {
						t.Errorf("the session ended after %v, want %v", took, test.ends)
					}
				}()
				if _, err := adminCall(t.Context(), s, func(*link) (any, error) {
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
