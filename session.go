package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A store with Info.SessionTTL keeps all claims of a client for as long as it renews
// any of them: a lease that is not renewed any more does not end by itself. It has to
// be released.

// releasedBy is until when a release is worth while that is due now: until the store
// has dropped the claim by itself.
func (l *lease) releasedBy(now clock.Instant) clock.Instant {
	if session := l.locker.info.SessionTTL; session > 0 {
		return now + session
	}
	return l.latest()
}

// releaseSession releases the claim of a lease that ended without an Unlock, if the
// store would keep it otherwise. What is left of the lease is the holder's time to
// stop: the release waits for its end, or for an Unlock.
func (l *lease) releaseSession(reason driver.Reason) {
	session := l.locker.info.SessionTTL
	if session == 0 || !mayBeKept(reason) {
		return
	}
	l.locker.background.Go(func() {
		l.mu.Lock()
		rest := l.ends - l.locker.clock.Now()
		l.mu.Unlock()
		time.Sleep(min(rest, session))
		if now := l.locker.clock.Now(); l.once() {
			l.locker.cleanUp(l.claim(now), nil, l.releasedBy(now))
		}
	})
}
