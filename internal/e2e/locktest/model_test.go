package locktest

import (
	"fmt"
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
	owner    int64
	lease    int64
	returned int64
}

// modelAnswer is what came back.
type modelAnswer struct {
	result string // "granted", "busy", "released" or "" if it is not known
	token  uint64
}

// modelState is the lock. Without now and expires, one operation that may have
// had its effect at any time would let every lease end.
type modelState struct {
	owner   int64 // 0 if it is free
	token   uint64
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
	case out.result == "busy":
		return s.owner != 0 && s.owner != in.owner, s
	}
	if s.owner != 0 && s.owner != in.owner { // only if that lease is over by now
		s.now = max(s.now, s.expires)
	}
	if s.now > in.returned || out.result == "granted" && out.token <= s.token {
		return false, s
	}
	s.owner, s.expires = in.owner, s.now+in.lease
	s.token = max(s.token, out.token)
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

// modelOperations makes them of one name's history. What a process that was
// killed was about may have had its effect at any later time.
func modelOperations(ops []operation) []porcupine.Operation {
	var all []porcupine.Operation
	add := func(called, returned int64, in modelCall, out modelAnswer) {
		in.returned = returned
		all = append(all, porcupine.Operation{Input: modelInput{in, called}, Call: called, Output: out, Return: returned})
	}
	for i, o := range ops {
		owner := int64(i + 1)
		acquire := modelCall{owner: owner, lease: o.lease}
		switch {
		case o.granted != never:
			add(o.called, o.granted, acquire, modelAnswer{"granted", o.token})
		case o.failed != never && o.failure == "busy":
			add(o.called, o.failed, acquire, modelAnswer{result: "busy"})
		default:
			add(o.called, never, acquire, modelAnswer{})
		}
		release := modelCall{release: true, owner: owner}
		switch {
		case o.failed != never && o.failure != "busy": // cleaned up in the background
			add(o.called, never, release, modelAnswer{})
		case o.unlock == never:
		case o.unlocked != never && o.unlockErr == "":
			add(o.unlock, o.unlocked, release, modelAnswer{result: "released"})
		default: // lost, it may still go back in the background
			add(o.unlock, never, release, modelAnswer{})
		}
	}
	return all
}

// mostModelled bounds what the checker is given at a time: its cost can explode.
const mostModelled = 1000

// linearizable checks each name of a history of exclusive locks. It returns how
// many operations it has judged, and of how many the outcome is unknown.
func (h *history) linearizable() (judged, unknown int, failure error) {
	byName := map[string][]operation{}
	for _, o := range h.operations {
		byName[o.name] = append(byName[o.name], o)
	}
	for name, ops := range byName {
		modelled := modelOperations(ops)
		if len(modelled) > mostModelled {
			return judged, unknown, fmt.Errorf("%q has %d operations: use more names", name, len(modelled))
		}
		judged += len(modelled)
		for _, o := range modelled {
			if o.Return == never {
				unknown++
			}
		}
		if got := porcupine.CheckOperationsTimeout(lockModel(), modelled, 20*time.Second); got != porcupine.Ok {
			return judged, unknown, fmt.Errorf("no order of the calls explains the answers for %q (%s):%s", name, got, listing(ops))
		}
	}
	return judged, unknown, nil
}

// listing shows the operations of one name by time.
func listing(ops []operation) string {
	ops = slices.Clone(ops)
	text := ""
	for _, o := range ops[:min(len(ops), 200)] {
		since := func(t int64) string {
			if t == never {
				return "-"
			}
			return time.Duration(t - ops[0].called).String()
		}
		text += fmt.Sprintf("\n\tprocess %d op %d token %d lease %v: called %s granted %s failed %s (%s) unlock %s %s (%s) lost %s killed %s",
			o.process, o.op, o.token, time.Duration(o.lease), since(o.called), since(o.granted), since(o.failed), o.failure,
			since(o.unlock), since(o.unlocked), o.unlockErr, since(o.lost), since(o.killed))
	}
	return text
}
