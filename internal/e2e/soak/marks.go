package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// reserve marks what was busy while somebody waited, or after one who waited was gone
// without a word: its place remains for a while.
func (r *round) reserve() {
	if !r.places {
		return
	}
	for i := range r.history.Operations {
		o := &r.history.Operations[i]
		o.Reserved = o.Try && slices.ContainsFunc(r.history.Operations, func(w judge.Operation) bool {
			until := w.Granted
			switch {
			case until != judge.Never:
			case w.Try && w.Failure == "busy":
				until = w.Failed
			default:
				until = min(w.Answered(), judge.Never-int64(fairPlace)) + int64(fairPlace)
			}
			return w.Name == o.Name && (w.Process != o.Process || w.Op != o.Op) && (!w.Try || r.passes) && w.Called < o.Failed && until > o.Called
		})
	}
}

// markChains has the model count with locks that are passed on: such a lease began before,
// with another holder.
func (r *round) markChains() {
	for i := range r.history.Operations {
		if o := &r.history.Operations[i]; strings.HasPrefix(o.Name, chains+":") {
			o.Kept = o.Left
		}
	}
}

// passedOn returns how many locks a goroutine had from another of its process: a grant of
// the store begins with a token that is not the next one.
func (r *round) passedOn() (n int) {
	last := map[string]judge.Operation{}
	grants := slices.DeleteFunc(slices.Clone(r.history.Operations), func(o judge.Operation) bool { return o.Granted == judge.Never })
	slices.SortFunc(grants, func(a, b judge.Operation) int { return cmp.Compare(a.Granted, b.Granted) })
	for _, o := range grants {
		if before, ok := last[o.Name]; ok && strings.HasPrefix(o.Name, chains+":") && o.Process == before.Process && o.Token == before.Token+1 {
			n++
		}
		last[o.Name] = o
	}
	return n
}

// markSessions has the model count with what a store that queues does: it has sessions, and
// no lease of one lock. A session may have been renewed for the last time before the grant.
func (r *round) markSessions() {
	if !r.queues {
		return
	}
	for i := range r.history.Operations {
		o := &r.history.Operations[i]
		o.Released, o.Kept = o.Fixed, o.Left
	}
}

// markLate marks the operations of which a call had no answer, if the store may execute it
// after the operation has ended: a database does, and undoes it. Any other store refuses a call
// that arrives after the release. After a lease that ended by itself nothing refuses it. A TryLock
// of which the first call had no answer says busy when the second is refused. Its release goes on
// in the background, and until then the store may execute the first call.
func (r *round) markLate() {
	type key struct {
		process int
		name    string
	}
	unanswered := map[key][]int64{}
	for _, e := range r.history.Events {
		if e.What == judge.Unanswered {
			k := key{e.Process, e.Name}
			unanswered[k] = append(unanswered[k], e.At)
		}
	}
	for i := range r.history.Operations {
		o := &r.history.Operations[i]
		mayBeLate := r.undoes || o.Fixed && !r.queues || o.Failure == "busy"
		o.Late = mayBeLate && slices.ContainsFunc(unanswered[key{o.Process, o.Name}], func(at int64) bool { return at >= o.Called && at <= o.Answered() })
	}
}

// markOutages marks the operations beside which a server or their process was broken.
func (r *round) markOutages() {
	for i := range r.history.Operations {
		o := &r.history.Operations[i]
		o.Outage = slices.ContainsFunc(r.windows, func(w window) bool {
			return (w.process < 0 || w.process == o.Process) && w.from <= o.Last() && w.to+int64(afterFault) >= o.Called
		})
	}
}
