package etcdhold

import (
	"cmp"
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

const (
	// forcedBelow is the prefix of the keys with the reasons of forced unlocks. In such a
	// key, forcedID is before the ID of the claim. No lock has such a key.
	forcedBelow = "holdfast.forced/"
	forcedID    = "/reason-"
	// forcedLeast is the shortest time for which a reason is kept.
	forcedLeast = time.Minute
)

func forcedKey(name, id string) string { return forcedBelow + name + forcedID + id }

// Force deletes the key and writes the reason in one transaction. The reason has a lease of
// its own, so that it stays when the process of the holder or of the operator ends.
func (s *store) Force(ctx context.Context, e ordered.Entry, id, reason string) (bool, error) {
	held, err := s.client.TimeToLive(ctx, clientv3.LeaseID(e.Session))
	if err != nil {
		return false, s.errorOf(err)
	}
	keep, err := s.client.Grant(ctx, max(held.GrantedTTL, int64(forcedLeast/time.Second)))
	if err != nil {
		return false, s.errorOf(err)
	}
	r, err := s.client.Txn(ctx).If(sameEntry(e)...).
		Then(clientv3.OpDelete(claimKey(e)), clientv3.OpPut(forcedKey(e.Name, id), reason, clientv3.WithLease(keep.ID))).
		Commit()
	if err != nil {
		return false, s.errorOf(err)
	}
	return r.Succeeded, nil // if the entry had changed, the new lease has no key, and expires
}

// Reason reads the key with the reason.
func (s *store) Reason(ctx context.Context, name, id string) (reason string, found bool, err error) {
	r, err := s.client.Get(ctx, forcedKey(name, id))
	if err != nil || len(r.Kvs) == 0 {
		return "", false, s.errorOf(err)
	}
	return string(r.Kvs[0].Value), true, nil
}

// Forced watches the keys with reasons: one watch for all names.
func (s *store) Forced(ctx context.Context, hint func(name, id string)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range s.client.Watch(ctx, forcedBelow, clientv3.WithPrefix(), clientv3.WithFilterDelete()) {
		if err := r.Err(); err != nil {
			return s.errorOf(err)
		}
		for _, event := range r.Events {
			name := strings.TrimPrefix(string(event.Kv.Key), forcedBelow)
			if end := strings.LastIndex(name, forcedID); end >= 0 {
				hint(name[:end], name[end+len(forcedID):])
			}
		}
	}
	return cmp.Or(ctx.Err(), errWatchEnded)
}
