package zkhold

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

const (
	// forcedNode has the reasons of forced unlocks. It is no lock: it has no children.
	forcedNode = "/holdfast.forced"
	// forcedMost is how large its data may become: older reasons make way.
	forcedMost = 64 << 10
)

// forced is why a hold was ended: an element of the list in forcedNode, the last first.
type forced struct {
	Path   string `json:"path"`
	Claim  string `json:"claim"`
	Reason string `json:"reason"`
}

// Force removes the node and writes the reason in one transaction.
func (s *store) Force(ctx context.Context, e ordered.Entry, id, reason string) (bool, error) {
	return view(ctx, s, func(l *link) (bool, error) {
		for {
			all, version, err := l.reasons()
			if errors.Is(err, zk.ErrNoNode) {
				if err = l.makeReasons(); err == nil {
					continue
				}
			}
			if err != nil {
				return false, err
			}
			all = slices.Insert(all, 0, forced{l.path(e.Name), id, reason})
			err = l.call(func() error {
				_, err := l.conn.Multi(
					&zk.SetDataRequest{Path: l.opts.Root + forcedNode, Data: encode(all), Version: version},
					&zk.DeleteRequest{Path: l.path(e.Name) + "/" + e.Key, Version: -1},
				)
				return err
			})
			switch {
			case errors.Is(err, zk.ErrBadVersion): // somebody else has written a reason meanwhile
			case errors.Is(err, zk.ErrNoNode):
				return false, nil
			default:
				return err == nil, err
			}
		}
	})
}

// encode returns the data of the first of the reasons, as many as may be.
func encode(all []forced) []byte {
	for {
		data, _ := json.Marshal(all) // strings cannot fail
		if len(data) <= forcedMost || len(all) == 1 {
			return data
		}
		all = all[:len(all)-1]
	}
}

// reasons reads the node with the reasons. Data that this package has not written is none.
func (l *link) reasons() (all []forced, version int32, err error) {
	data, stat, err := l.get(l.opts.Root + forcedNode)
	if err != nil {
		return nil, 0, err
	}
	if json.Unmarshal(data, &all) != nil {
		all = nil
	}
	return all, stat.Version, nil
}

// makeReasons makes the node with the reasons. It stays.
func (l *link) makeReasons() error {
	if err := l.contain(l.opts.Root); err != nil {
		return err
	}
	err := l.call(func() error {
		_, err := l.conn.Create(l.opts.Root+forcedNode, []byte("[]"), zk.FlagPersistent, l.acl())
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil // made, or to be tried again, from the beginning
	}
	return err
}

// Reason looks for the last reason of a claim.
func (s *store) Reason(ctx context.Context, name, id string) (reason string, found bool, err error) {
	all, err := view(ctx, s, func(l *link) ([]forced, error) {
		all, _, err := l.reasons()
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		return all, err
	})
	path := pathOf(s.opts.Root, name)
	if i := slices.IndexFunc(all, func(f forced) bool { return f.Path == path && f.Claim == id }); i >= 0 {
		return all[i].Reason, true, nil
	}
	return "", false, err
}

// Forced reports what was removed of the nodes that this process watches anyway, its own.
func (s *store) Forced(ctx context.Context, hint func(name, id string)) error {
	removed := make(chan place, 64)
	s.hearing.Lock()
	s.listeners = append(s.listeners, removed)
	s.hearing.Unlock()
	defer func() {
		s.hearing.Lock()
		defer s.hearing.Unlock()
		s.listeners = slices.DeleteFunc(s.listeners, func(other chan place) bool { return other == removed })
	}()
	for {
		select {
		case at := <-removed:
			hint(at.name, at.id)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lost notifies listeners of removed nodes. It is only a hint, and waits for
// nobody.
func (s *store) lost(at place) {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	for _, removed := range s.listeners {
		select {
		case removed <- at:
		default:
		}
	}
}
