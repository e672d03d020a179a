package etcdhold

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// suffixes assigns the suffixes, the last parts of keys, for one lease. A claim that has a key,
// or may have one, has a suffix. A new claim gets the lowest suffix that is free for its name.
// So later claims reuse the keys of earlier claims. That saves time: when etcd reads a queue, it
// also reads the deleted keys, which it keeps until the next compaction.
//
// A suffix is not reused while a call for its key is under way, nor after a call without an
// answer: etcd might execute that call when the key belongs to another claim.
type suffixes struct {
	mu     sync.Mutex
	lease  int64
	byName map[string][]suffix // the text of a suffix is its index, in hexadecimal digits
}

// suffix is the state of a suffix. The zero value is free.
type suffix struct {
	id            string // the ID of the claim; "" if the claim has no key any more
	calls         int    // how many calls for the key are under way
	exists        bool   // etcd has answered that there is a key
	removed       bool   // the key was removed
	indeterminate bool   // a call had no answer
}

// use identifies the key of a claim from the beginning of a call for the key to the end of that
// call.
type use struct {
	lease int64
	name  string
	index int    // the index of the suffix in suffixes.byName[name]; -1 if the claim has no suffix
	text  string // the suffix; the ID of the claim if the claim has no suffix
}

// reset begins a new lease. The keys of the previous lease have ended with it.
func (s *suffixes) reset(lease int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.byName = lease, make(map[string][]suffix)
}

// begin records the beginning of a call for the key of a claim, and returns the suffix of the
// claim. A claim without a suffix gets the lowest free suffix that is not lower than `from`. If
// `from` is negative, or the lease has ended, the claim gets no suffix. In that case use.text
// is the ID of the claim, which is the suffix of no key.
func (s *suffixes) begin(lease int64, name, id string, from int) use {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byName[name]
	i := slices.IndexFunc(all, func(x suffix) bool { return x.id == id })
	if lease != s.lease || i < 0 && from < 0 {
		return use{index: -1, text: id}
	}
	if i < 0 {
		for i = from; i < len(all) && all[i] != (suffix{}); {
			i++
		}
		all = append(all, make([]suffix, max(i+1-len(all), 0))...)
		all[i].id = id
		s.byName[name] = all
	}
	all[i].calls++
	return use{lease, name, i, textOf(i)}
}

// textFor returns the suffix of a claim, for a call that changes no key. `ok` is false if the
// claim has no suffix.
func (s *suffixes) textFor(lease int64, name, id string) (text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.byName[name], func(x suffix) bool { return x.id == id })
	return textOf(i), i >= 0 && lease == s.lease && id != ""
}

// textOf returns the text of the suffix with index i.
func textOf(i int) string {
	const zeros = "0000000000000000" // idLength of them
	digits := strconv.FormatUint(uint64(i), 16)
	return zeros[len(digits):] + digits
}

// claimOf returns the ID of the claim that has the suffix `text`. If the claim is gone and its
// suffix is not free yet, claimOf returns `text`. `ok` is false if the suffix is free: another
// claim may get it at any time.
func (s *suffixes) claimOf(lease int64, name, text string) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := strconv.ParseUint(text, 16, 64)
	if all := s.byName[name]; err == nil && lease == s.lease && i < uint64(len(all)) && all[i] != (suffix{}) {
		return cmp.Or(all[i].id, text), true
	}
	return "", false
}

// endPut records the end of a call that puts the key if it does not exist. `there` says whether
// the key exists after the call.
func (s *suffixes) endPut(u use, there bool, err error) {
	s.end(u, err, func(x *suffix) {
		if x.exists = there; there { // a Try after a Release has put the key again
			x.removed = false
		}
	})
}

// endRemove records the end of a call that removes the key.
func (s *suffixes) endRemove(u use, err error) {
	s.end(u, err, func(x *suffix) { x.exists, x.removed = false, true })
}

// endShare records the end of a call that changes the key only if it exists.
func (s *suffixes) endShare(u use, err error) { s.end(u, err, func(*suffix) {}) }

// end records the end of a call. If the call was answered, the function `answer` changes the
// state of the suffix. The suffix is free when its key was removed, and no call for the key is
// under way any more. But if one of the calls had no answer, the suffix is never used again for
// this lease.
func (s *suffixes) end(u use, err error, answer func(*suffix)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.index < 0 || u.lease != s.lease {
		return
	}
	all := s.byName[u.name]
	x := &all[u.index]
	x.calls--
	switch {
	case err == nil:
		answer(x)
	case !errors.Is(err, driver.ErrNotExecuted):
		x.indeterminate = true
	}
	if x.calls == 0 && !x.exists && (x.removed || !x.indeterminate) {
		*x = suffix{indeterminate: x.indeterminate}
	}
	for len(all) > 0 && all[len(all)-1] == (suffix{}) {
		all = all[:len(all)-1]
	}
	if s.byName[u.name] = all; len(all) == 0 {
		delete(s.byName, u.name)
	}
}
