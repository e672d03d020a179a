package webdemo

import "time"

// Outcomes of a job.
const (
	outcomeDone      = "done"      // the lock was held for the whole work
	outcomeLost      = "lost"      // the lock was lost meanwhile
	outcomeCancelled = "cancelled" // the client went away
	outcomeKilled    = "killed"    // the instance is gone; nobody knows what it has done
	outcomeFailed    = "failed"
)

// result is what a request for the lock is answered.
type result struct {
	Instance string `json:"instance"`
	Outcome  string `json:"outcome"`
	Token    uint64 `json:"token,omitempty"`
	Waited   int64  `json:"waited_ms"`
	Held     int64  `json:"held_ms"`
	Write    string `json:"write,omitempty"` // "accepted" or "refused" by the ledger
	Error    string `json:"error,omitempty"`
}

// job is one request for the lock. Its instance guards it; result may be read once
// done is closed.
type job struct {
	number int
	work   time.Duration
	asked  time.Time
	since  time.Time // when it got the lock; zero while it waits
	lost   bool
	seen   uint64 // refused: the token that the ledger has seen
	result result
	done   chan struct{}
}

// finish settles the job. text is why it ended, "" if it went well.
func (j *job) finish(outcome, text string) {
	now := time.Now()
	j.result.Outcome, j.result.Error = outcome, text
	if j.since.IsZero() {
		j.result.Waited = now.Sub(j.asked).Milliseconds()
	} else {
		j.result.Waited = j.since.Sub(j.asked).Milliseconds()
		j.result.Held = now.Sub(j.since).Milliseconds()
	}
	close(j.done)
}
