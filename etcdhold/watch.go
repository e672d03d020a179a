package etcdhold

import (
	"context"
	"errors"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// few is how many keys are watched one by one. Of more the whole queue is watched.
const few = 2

// Watch watches from now, and reads the queue once the watch has begun. A watch from a
// revision of the past would be served ten times a second only, where the server puts
// those that have to catch up.
func (s *store) Watch(ctx context.Context, name string, keys []string) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	var watches []clientv3.WatchChan
	if len(keys) > few {
		watches = append(watches, s.client.Watch(ctx, below(name), clientv3.WithPrefix(), clientv3.WithCreatedNotify()))
	} else {
		for _, key := range keys {
			watches = append(watches, s.client.Watch(ctx, strings.TrimSuffix(key, shared), clientv3.WithCreatedNotify()))
		}
	}
	for _, w := range watches {
		if r, ok := <-w; !ok || r.Err() != nil {
			return s.errorOf(failure(ctx, r))
		}
	}
	now, err := s.Queue(ctx, name)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !slices.ContainsFunc(now, func(e ordered.Entry) bool { return e.Key == key }) {
			return nil
		}
	}
	if len(watches) == 1 {
		watches = append(watches, nil) // never receives
	}
	for {
		var r clientv3.WatchResponse
		var ok bool
		select {
		case r, ok = <-watches[0]:
		case r, ok = <-watches[1]:
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !ok || r.Err() != nil || concerns(r, keys) {
			return nil // also where the watch has ended: nobody knows what happened since
		}
	}
}

// errWatchEnded says that a watch ended by itself.
var errWatchEnded = errors.New("the watch has ended")

// failure is why a watch did not begin.
func failure(ctx context.Context, r clientv3.WatchResponse) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.Err() != nil:
		return r.Err()
	}
	return errWatchEnded
}

// concerns says that one of the keys was changed or removed.
func concerns(r clientv3.WatchResponse, keys []string) bool {
	return slices.ContainsFunc(r.Events, func(e *clientv3.Event) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return strings.TrimSuffix(key, shared) == string(e.Kv.Key) })
	})
}
