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
	// forcedNode is the node with the reasons of forced unlocks. It is not a lock, because
	// it has no children.
	forcedNode = "/holdfast.forced"
	// forcedMost is the largest size in bytes of the data of forcedNode. Force removes the
	// oldest reasons if the data would be larger.
	forcedMost = 64 << 10
)

// forced is the reason of a forced unlock: an element of the list in forcedNode. The first
// element of that list is the latest.
type forced struct {
	Path   string `json:"path"`
	Claim  string `json:"claim"`
	Reason string `json:"reason"`
}

// Force removes the node and writes the reason in one transaction.
func (s *store) Force(ctx context.Context, e ordered.Entry, id, reason string) (bool, error) {
	return adminCall(ctx, s, func(l *link) (bool, error) {
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
			case errors.Is(err, zk.ErrBadVersion): // another client has written a reason meanwhile
			case errors.Is(err, zk.ErrNoNode):
				return false, nil
			default:
				return err == nil, err
			}
		}
	})
}

// encode returns the first reasons in `all` as JSON: as many as fit into forcedMost bytes, but
// at least one.
func encode(all []forced) []byte {
	for {
		data, _ := json.Marshal(all) // Marshal does not fail for strings
		if len(data) <= forcedMost || len(all) == 1 {
			return data
		}
		all = all[:len(all)-1]
	}
}

// reasons reads the node with the reasons. Data that this package has not written counts as
// no reasons.
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

// makeReasons makes the node with the reasons. The node is persistent.
func (l *link) makeReasons() error {
	if err := l.makeContainers(l.opts.Root); err != nil {
		return err
	}
	err := l.call(func() error {
		_, err := l.conn.Create(l.opts.Root+forcedNode, []byte("[]"), zk.FlagPersistent, l.acl())
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil // the node exists, or the caller begins again
	}
	return err
}

// Reason returns the last reason with which Force removed the node of a claim.
func (s *store) Reason(ctx context.Context, name, id string) (reason string, found bool, err error) {
	all, err := adminCall(ctx, s, func(l *link) ([]forced, error) {
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

// Forced calls `hint` for each node of this process that another program deletes. It needs no
// requests, because this process watches its nodes anyway.
func (s *store) Forced(ctx context.Context, hint func(name, id string)) error {
	removed := make(chan nodeKey, 64)
	s.listenersMu.Lock()
	s.listeners = append(s.listeners, removed)
	s.listenersMu.Unlock()
	defer func() {
		s.listenersMu.Lock()
		defer s.listenersMu.Unlock()
		s.listeners = slices.DeleteFunc(s.listeners, func(other chan nodeKey) bool { return other == removed })
	}()
	for {
		select {
		case key := <-removed:
			hint(key.name, key.id)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notifyRemoved notifies listeners of a deleted node. The notification is only a hint, so it
// does not wait for a listener that is busy.
func (s *store) notifyRemoved(key nodeKey) {
	s.listenersMu.Lock()
	defer s.listenersMu.Unlock()
	for _, removed := range s.listeners {
		select {
		case removed <- key:
		default:
		}
	}
}
