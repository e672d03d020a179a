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
// A suffix is not used again after a call without an answer: etcd may execute that call
// when the key is that of another claim.
type suffixes struct {
	mu     sync.Mutex
	lease  int64
	byName map[string][]suffix // a suffix is the index
}

// suffix is in use, unless it is the zero value.
type suffix struct {
	id     string // of the claim; "" if that has no key any more
	there  bool   // etcd has answered that there is a key
	unsure bool   // a call had no answer
}

// of returns the suffix of a claim. One that has none gets one if take is set; else its
// ID is returned, with which there is no key.
func (s *suffixes) of(lease int64, name, id string, take bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if take && lease != s.lease {
		s.lease, s.byName = lease, make(map[string][]suffix)
	}
	if lease != s.lease {
		return id
	}
	all := s.byName[name]
	i := slices.IndexFunc(all, func(x suffix) bool { return x.id == id })
	if i < 0 && !take {
		return id
	}
	if i < 0 {
		if i = slices.Index(all, suffix{}); i < 0 {
			i, all = len(all), append(all, suffix{})
		}
		all[i] = suffix{id: id}
		s.byName[name] = all
	}
	return fmt.Sprintf("%0*x", idLength, i)
}

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

// answered takes note of the end of a call for a claim, after which there is a key or not.
func (s *suffixes) answered(lease int64, name, id string, there bool, err error) {
	s.change(lease, name, id, func(x *suffix) {
		switch {
		case err == nil:
			x.there = there
		case !errors.Is(err, driver.ErrNotExecuted):
			x.unsure = true
		}
		if !x.there && !x.unsure {
			*x = suffix{}
		}
	})
}

// removed takes note of the end of a call that removes the key of a claim.
func (s *suffixes) removed(lease int64, name, id string, err error) {
	s.change(lease, name, id, func(x *suffix) {
		switch {
		case err == nil:
			*x = suffix{unsure: x.unsure}
		case !errors.Is(err, driver.ErrNotExecuted):
			x.unsure = true
		}
	})
}

// change changes the suffix of a claim, and forgets those at the end that are not used.
func (s *suffixes) change(lease int64, name, id string, to func(*suffix)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byName[name]
	i := slices.IndexFunc(all, func(x suffix) bool { return x.id == id })
	if lease != s.lease || i < 0 {
		return
	}
	to(&all[i])
	for len(all) > 0 && all[len(all)-1] == (suffix{}) {
		all = all[:len(all)-1]
	}
	if s.byName[name] = all; len(all) == 0 {
		delete(s.byName, name)
	}
}
