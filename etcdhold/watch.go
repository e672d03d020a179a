package etcdhold

import (
	"context"
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// Watch watches from the current revision, and reads the entries after the watch has begun. It
// does not watch from an earlier revision, because the server looks only ten times a second for
// the earlier events of such watches. For more than one entry, Watch watches the whole queue.
// It never calls the function `early` of ordered.Store, because that would need a second watch.
// `gone` is always false.
func (s *store) Watch(ctx context.Context, name string, entries []ordered.Entry, _ *ordered.Entry, _ func()) (gone bool, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	key, opts := below(name), []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithPrefix()}
	if len(entries) == 1 {
		key, opts = claimKey(entries[0]), opts[:1]
	}
	changes := s.client.Watch(ctx, key, opts...)
	if r, ok := <-changes; !ok || r.Err() != nil {
		return false, s.errorOf(watchFailure(ctx, r))
	}
	if same, err := s.unchanged(ctx, name, entries); err != nil || !same {
		return false, err
	}
	for r := range changes {
		if r.Err() != nil || concerns(r, entries) {
			break
		}
	}
	return false, ctx.Err() // nil also if the watch has ended by itself, because the keys may have changed since then
}

// unchanged reports whether the entries exist and have not changed. A key that was deleted
// and put again is another entry: clients of package concurrency reuse their keys.
func (s *store) unchanged(ctx context.Context, name string, entries []ordered.Entry) (bool, error) {
	if len(entries) > 1 {
		now, err := s.Queue(ctx, name, 0, false)
		return !slices.ContainsFunc(entries, func(e ordered.Entry) bool { return !slices.Contains(now, e) }), err
	}
	// Without the OpGet, a server would answer from its own state, which may be old.
	r, err := s.client.Txn(ctx).If(sameEntry(entries[0])...).Then(clientv3.OpGet(claimKey(entries[0]), clientv3.WithCountOnly())).Commit()
	if err != nil {
		return false, s.errorOf(err)
	}
	return r.Succeeded, nil
}

// sameEntry returns comparisons that succeed if the key of an entry has not changed.
func sameEntry(e ordered.Entry) []clientv3.Cmp {
	key := claimKey(e)
	same := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", int64(e.Order))}
	switch {
	case e.Shared:
		same = append(same, clientv3.Compare(clientv3.Version(key), ">", 1))
	case e.Label.Kind == ordered.Writer:
		same = append(same, clientv3.Compare(clientv3.Version(key), "=", 1))
	}
	return same
}

// errWatchEnded says that a watch ended by itself.
var errWatchEnded = errors.New("the watch has ended")

// watchFailure returns why a watch did not begin.
func watchFailure(ctx context.Context, r clientv3.WatchResponse) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.Err() != nil:
		return r.Err()
	}
	return errWatchEnded
}

// concerns reports whether an event in r changed or removed the key of one of the entries.
func concerns(r clientv3.WatchResponse, entries []ordered.Entry) bool {
	return slices.ContainsFunc(r.Events, func(event *clientv3.Event) bool {
		return slices.ContainsFunc(entries, func(e ordered.Entry) bool { return claimKey(e) == string(event.Kv.Key) })
	})
}
