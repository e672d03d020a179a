package holdfast

import (
	"context"
	"sync"
)

// A process may ask for a name before the store has answered the process's own release of that
// name: after an Unlock with Options.AsyncUnlock, and after a release that lets the next
// goroutine ask early. The two calls may travel on two connections, so the try may arrive first.
// It is refused then, although nobody wants to keep the lock. No notification ends the wait after
// such a refusal if the release is quiet. So a claim that is refused while such a release has no
// answer waits for the answer, and asks again.

// sentRelease is a release of this process that the store has not answered yet. The mutex of
// the releases guards it.
type sentRelease struct {
	over     bool          // the store has answered, or the Unlock does not repeat the release any more
	answered chan struct{} // closed when the field `over` is set; nil if no goroutine waits for that
}

// releases has those sent releases of a Locker behind which a claim of the Locker may ask for
// the name.
type releases struct {
	mu     sync.Mutex
	byName map[string]*sentRelease // the last one of each name
}

// begin adds a release of a name.
func (r *releases) begin(name string) *sentRelease {
	s := new(sentRelease)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = make(map[string]*sentRelease)
	}
	r.byName[name] = s
	return s
}

// end removes a release, and lets the goroutines go on that wait for it. It does nothing if the
// release was removed before, or if s is nil.
func (r *releases) end(name string, s *sentRelease) {
	if s == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.over = true
	if r.byName[name] == s {
		delete(r.byName, name)
	}
	if s.answered != nil {
		close(s.answered)
		s.answered = nil
	}
}

// underWay returns the last release of a name that has no answer yet; nil if there is none.
func (r *releases) underWay(name string) *sentRelease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

// wait returns true when the release s is over, and false if ctx ends first. It returns true at
// once if s is nil.
func (r *releases) wait(ctx context.Context, s *sentRelease) bool {
	if s == nil {
		return true
	}
	r.mu.Lock()
	if s.over {
		r.mu.Unlock()
		return true
	}
	if s.answered == nil {
		s.answered = make(chan struct{})
	}
	answered := s.answered
	r.mu.Unlock()
	select {
	case <-answered:
		return true
	case <-ctx.Done():
		return false
	}
}
