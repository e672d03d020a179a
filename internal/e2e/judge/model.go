package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of one lock with a lease and a token, for a linearizability checker.
// Beside what the sweep sees it judges answers: a busy lock has a holder, a lock
// that was unlocked was held until then.

// modelCall is what was asked.
type modelCall struct {
	release  bool
	ghost    bool // an attempt whose answer was lost
	outage   bool // beside a fault
	owner    int64
	lease    int64
	returned int64
}

// modelAnswer is what came back.
type modelAnswer struct {
	result string // "granted", "busy", "released" or "" if it is not known
	token  uint64
	rank   int // of the token among those of all grants, from 1; 0 if it is not known
}

// modelState is the lock. Without now and expires, one operation that may have
// had its effect at any time would let every lease end.
type modelState struct {
	owner   int64 // 0 if it is free
	token   uint64
	rank    int   // of the token
	expires int64 // the lease does not end before
	now     int64 // it is not earlier
}

func modelStep(s modelState, in modelCall, out modelAnswer, called int64) (bool, modelState) {
	s.now = max(s.now, called)
	if s.now > in.returned {
		return false, s
	}
	switch {
	case in.release:
		if out.result == "released" && s.owner != in.owner {
			return false, s
		}
		if s.owner == in.owner {
			s.owner = 0
		}
		return true, s
	case in.ghost:
		if s.owner == 0 {
			s.owner, s.expires = in.owner, s.now+in.lease
		}
		return true, s
	case out.result == "busy":
		return s.owner != 0 && s.owner != in.owner && s.owner != late(in.owner), s
	}
	if s.owner != 0 && s.owner != in.owner { // only if that lease is over by now
		s.now = max(s.now, s.expires)
	}
	if s.now > in.returned || out.result == "granted" && (out.token <= s.token || out.rank > s.rank+1) {
		return false, s
	}
	s.owner, s.expires = in.owner, s.now+in.lease
	s.token, s.rank = max(s.token, out.token), max(s.rank, out.rank)
	return true, s
}

// modelInput is a call with its instant, which porcupine does not show to Step.
type modelInput struct {
	modelCall
	called int64
}

func lockModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return modelState{} },
		Step: func(state, input, output any) (bool, any) {
			in := input.(modelInput)
			return modelStep(state.(modelState), in.modelCall, output.(modelAnswer), in.called)
		},
	}
}

// doubt is what a history may contain that nobody has seen an answer of.
type doubt struct {
	calls  bool  // calls without an answer had their effect
	ghosts int64 // of each operation there are so many ghosts at most
}

// doubts are tried one after the other: the more there may have been, the longer the
// checker takes, and few histories need it.
func doubts() []doubt {
	return []doubt{{false, 0}, {true, 0}, {true, 1}, {true, math.MaxInt64}}
}

// modelOperations makes them of one name's history. What a process that was
// killed was about may have had its effect at any later time.
func modelOperations(ops []Operation, may doubt) []porcupine.Operation {
	var all []porcupine.Operation
	outage := false
	add := func(called, returned int64, in modelCall, out modelAnswer) {
		in.returned, in.outage = returned, outage
		all = append(all, porcupine.Operation{Input: modelInput{in, called}, Call: called, Output: out, Return: returned})
	}
	ranks := ranksOf(ops)
	for i, o := range ops {
		owner := int64(i + 1)
		outage = o.Outage
		if o.Late && may.calls {
			add(o.Called, o.Last()+lateMost, modelCall{ghost: true, owner: late(owner)}, modelAnswer{})
		}
		if o.Reserved && o.Failure == "busy" { // says nothing, and did nothing
			continue
		}
		for n := range min(may.ghosts, ghosts(o)) {
			add(o.Called, o.Answered(), modelCall{ghost: true, owner: -owner - n*int64(len(ops)), lease: o.Lease}, modelAnswer{})
		}
		acquire := modelCall{owner: owner, lease: o.Lease}
		if o.Kept > 0 {
			acquire.lease = o.Kept
		}
		switch {
		case o.Granted != Never:
			add(o.Called, o.Granted, acquire, modelAnswer{"granted", o.Token, ranks[o.Token]})
		case o.Failed != Never && o.Failure == "busy":
			add(o.Called, o.Failed, acquire, modelAnswer{result: "busy"})
		case !may.calls:
			continue
		default:
			add(o.Called, Never, acquire, modelAnswer{})
		}
		release := modelCall{release: true, owner: owner}
		switch {
		case o.Failed != Never && o.Failure != "busy": // cleaned up in the background
			add(o.Called, Never, release, modelAnswer{})
		case o.Unlock == Never && o.Released && o.Lost != Never:
			add(o.Lost, Never, release, modelAnswer{})
		case o.Unlock == Never:
		case o.Unlocked != Never && o.UnlockErr == "":
			add(o.Unlock, o.Unlocked, release, modelAnswer{result: "released"})
		default: // lost, it may still go back in the background
			add(o.Unlock, Never, release, modelAnswer{})
		}
	}
	return all
}

// ranksOf returns the ranks of the tokens; none if two are equal. All grants have a place
// in the order that is looked for, and tokens rise in it, so a grant can only follow the
// one with the token before. Without that the checker tries orders that cannot end well.
func ranksOf(ops []Operation) map[uint64]int {
	var tokens []uint64
	for _, o := range ops {
		if o.Granted != Never {
			tokens = append(tokens, o.Token)
		}
	}
	slices.Sort(tokens)
	ranks := make(map[uint64]int, len(tokens))
	for i, token := range tokens {
		ranks[token] = i + 1
	}
	if len(ranks) != len(tokens) {
		return nil
	}
	return ranks
}

// ghosts returns how many times an acquisition may have held the lock before it
// was answered: an attempt whose answer was lost held it for one lease, then
// another came in between, and the acquisition tried again. A ghost that finds the
// lock held has no effect.
func ghosts(o Operation) int64 {
	if o.Answered() == Never || o.Lease == 0 {
		return 0
	}
	return (o.Answered() - o.Called) / o.Lease
}

// late returns the owner of a hold that a late call of owner's operation has taken.
func late(owner int64) int64 { return -owner - 1<<40 }

// Last returns the last instant that is known of the operation.
func (o *Operation) Last() int64 {
	at := o.Called
	for _, t := range []int64{o.Granted, o.Failed, o.Unlock, o.Unlocked} {
		if t != Never {
			at = max(at, t)
		}
	}
	return at
}

// lateMost is how long after its operation has ended a late call may take the lock: the
// store undoes it a second later.
const lateMost = int64(2 * time.Second)

// mostModelled bounds what the checker is given at a time: its cost can explode.
const mostModelled = 1000

// Judgement is what asking the model brought.
type Judgement struct {
	Operations int      // judged
	Unknown    int      // of these, without an answer although nothing was broken
	Outage     int      // without one beside a fault
	Undecided  int      // names that took the checker too long
	Listings   []string // of these
	Violations []*Violation
}

// Err returns the first violation, or an error if names are undecided.
func (j Judgement) Err() error {
	switch {
	case len(j.Violations) > 0:
		return j.Violations[0]
	case j.Undecided > 0:
		return fmt.Errorf("%d names took the checker too long", j.Undecided)
	}
	return nil
}

// Linearizable asks of each name that accept accepts whether one lock with a
// lease and a token, exclusive and not reentrant, explains all answers, for at
// most limit each. accept may be nil.
func (h *History) Linearizable(limit time.Duration, accept func(name string) bool) Judgement {
	byName := map[string][]Operation{}
	for _, o := range h.Operations {
		if accept == nil || accept(o.Name) {
			byName[o.Name] = append(byName[o.Name], o)
		}
	}
	var j Judgement
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		j.ask(name, byName[name], limit)
	}
	return j
}

func (j *Judgement) ask(name string, ops []Operation, limit time.Duration) {
	modelled := modelOperations(ops, doubt{calls: true})
	if len(modelled) > mostModelled {
		j.undecided(name, ops)
		return
	}
	j.Operations += len(modelled)
	for _, o := range modelled {
		switch {
		case o.Return != Never:
		case o.Input.(modelInput).outage: //nolint:forcetypeassert // all are
			j.Outage++
		default:
			j.Unknown++
		}
	}
	answer := porcupine.Unknown
	for _, may := range doubts() {
		if answer = porcupine.CheckOperationsTimeout(lockModel(), modelOperations(ops, may), limit); answer == porcupine.Ok {
			break
		}
	}
	switch answer {
	case porcupine.Unknown:
		j.undecided(name, ops)
	case porcupine.Illegal:
		text := fmt.Sprintf("no order of the calls explains the answers for %q:%s", name, listing(ops))
		j.Violations = append(j.Violations, &Violation{Kind: Disorder, At: ops[0].Called, Name: name, A: &ops[0], Text: text})
	}
}

func (j *Judgement) undecided(name string, ops []Operation) {
	j.Undecided++
	j.Listings = append(j.Listings, fmt.Sprintf("the checker took too long for %d calls on %q:%s", len(ops), name, listing(ops)))
}

// listing shows the operations of one name by time.
func listing(ops []Operation) string {
	ops = slices.Clone(ops)
	text := ""
	for _, o := range ops[:min(len(ops), 200)] {
		since := func(t int64) string {
			if t == Never {
				return "-"
			}
			return time.Duration(t - ops[0].Called).String()
		}
		text += fmt.Sprintf("\n\tprocess %d op %d token %d lease %v: called %s granted %s failed %s (%s) unlock %s %s (%s) lost %s killed %s",
			o.Process, o.Op, o.Token, time.Duration(o.Lease), since(o.Called), since(o.Granted), since(o.Failed), o.Failure,
			since(o.Unlock), since(o.Unlocked), o.UnlockErr, since(o.Lost), since(o.Killed))
	}
	return text
}
