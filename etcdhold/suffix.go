package etcdhold

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// suffixes are the ends of the keys of one lease: each claim with a key, or that may have
// one, has the lowest that no other claim of its name has. So claims use keys again. etcd
// passes all keys of a name when it reads the queue, those that were deleted since the
// last compaction among them.
//
// A suffix is not used again while a call for its key is under way, nor after a call
// without an answer: etcd may execute that call when the key is that of another claim.
type suffixes struct {
	mu     sync.Mutex
	lease  int64
	byName map[string][]suffix // a suffix is the index
}

// suffix is in use, unless it is the zero value.
type suffix struct {
	id     string // of the claim; "" if that has no key any more
	calls  int    // under way
	there  bool   // etcd has answered that there is a key
	over   bool   // the key was removed
	unsure bool   // a call had no answer
}

// use is a call for the key of a claim, from before it is sent until it is answered.
type use struct {
	lease int64
	name  string
	index int    // -1 if the claim has no suffix: then there is no key
	text  string // the suffix
}

// reset begins with a new lease. The keys of the one before end with it.
func (s *suffixes) reset(lease int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.byName = lease, make(map[string][]suffix)
}

// begin returns the suffix of a claim. One that has none gets the lowest, not below from;
// if from is negative its ID is returned, with which there is no key. So it is for a lease
// that has ended.
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

// of returns the suffix of a claim, for a call that changes no key. ok is false if it has
// none.
func (s *suffixes) of(lease int64, name, id string) (text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.byName[name], func(x suffix) bool { return x.id == id })
	return textOf(i), i >= 0 && lease == s.lease && id != ""
}

// textOf returns a suffix as it is written.
func textOf(i int) string { return fmt.Sprintf("%0*x", idLength, i) }

// claim returns the ID of the claim with a suffix, and the suffix for a key that no claim
// has. ok is false if the key was just released: the suffix may be that of another claim
// at any time.
func (s *suffixes) claim(lease int64, name, text string) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := strconv.ParseUint(text, 16, 64)
	if all := s.byName[name]; err == nil && lease == s.lease && i < uint64(len(all)) && all[i] != (suffix{}) {
		return cmp.Or(all[i].id, text), true
	}
	return "", false
}

// answered takes note of the end of a call, after which there is a key or not.
func (s *suffixes) answered(u use, there bool, err error) {
	s.end(u, err, func(x *suffix) {
		if x.there = there; there { // a try after a release has put it
			x.over = false
		}
	})
}

// removed takes note of the end of a call that removes the key.
func (s *suffixes) removed(u use, err error) {
	s.end(u, err, func(x *suffix) { x.there, x.over = false, true })
}

// shared takes note of the end of a call that changes the key, if there is one.
func (s *suffixes) shared(u use, err error) { s.end(u, err, func(*suffix) {}) }

// end takes note of the end of a call. If it was answered, answer changes the suffix. One
// that is not used any more is free, or never used again.
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
		x.unsure = true
	}
	if x.calls == 0 && !x.there && (x.over || !x.unsure) {
		*x = suffix{unsure: x.unsure}
	}
	for len(all) > 0 && all[len(all)-1] == (suffix{}) {
		all = all[:len(all)-1]
	}
	if s.byName[u.name] = all; len(all) == 0 {
		delete(s.byName, u.name)
	}
}
