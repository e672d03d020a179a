package etcdhold

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/ordered"
)

// store is an ordered.Store. Its sessions are leases. It orders entries by the create revisions
// of their keys.
type store struct {
	client  *clientv3.Client
	extra   *extraConns
	ttl     time.Duration
	checked bool // the servers are new enough; only Open uses this field, and one Open runs at a time
	keys    suffixes
}

// Open grants a lease.
func (s *store) Open(ctx context.Context) (session int64, ttl time.Duration, err error) {
	if !s.checked {
		if err := s.checkVersions(ctx); err != nil {
			return 0, 0, s.errorOf(err)
		}
		s.checked = true
	}
	r, err := s.client.Grant(ctx, int64(s.ttl/time.Second))
	if err != nil {
		return 0, 0, s.errorOf(err)
	}
	s.keys.reset(int64(r.ID))
	return int64(r.ID), time.Duration(r.TTL) * time.Second, nil
}

// Extend extends the lease once. It does not use KeepAlive of the client, which extends a lease
// in a loop. KeepAlive counts the TTL from the receipt of each answer, so it would notice the
// end of the lease too late.
func (s *store) Extend(ctx context.Context, session int64) (time.Duration, error) {
	r, err := renewal(ctx, s.extra, func(ctx context.Context, over requests) (*clientv3.LeaseKeepAliveResponse, error) {
		return over.KeepAliveOnce(ctx, clientv3.LeaseID(session))
	})
	if err != nil {
		return 0, s.errorOf(err)
	}
	return time.Duration(r.TTL) * time.Second, nil
}

// Has compares the leases of the keys with the session, readsAtOnce keys in each transaction.
// It does not list all keys of the lease, because the list would be long even if there are few
// claims to check. The answer to a comparison is short if all keys exist. If a key has the
// lease of the session, it belongs to the claim that has the suffix of the key.
func (s *store) Has(ctx context.Context, session int64, entries []ordered.Entry) ([]bool, error) {
	there := make([]bool, len(entries))
	var keys []string
	var at []int // at[i] is the index of the entry with the key keys[i]
	for i, e := range entries {
		if suffix, ok := s.keys.textFor(session, e.Name, e.Label.ID); ok {
			keys, at = append(keys, keyOf(session, e.Name, e.Label, suffix)), append(at, i)
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, (len(keys)+readsAtOnce-1)/readsAtOnce)
	for n := range errs {
		from, end := n*readsAtOnce, min((n+1)*readsAtOnce, len(keys))
		wg.Go(func() {
			var own []bool
			own, errs[n] = s.leases(ctx, session, keys[from:end])
			for i, ok := range own {
				there[at[from+i]] = ok
			}
		})
	}
	wg.Wait()
	return there, errors.Join(errs...)
}

// leases reports for each key whether it exists with this lease.
func (s *store) leases(ctx context.Context, lease int64, keys []string) ([]bool, error) {
	same, gets := make([]clientv3.Cmp, len(keys)), make([]clientv3.Op, len(keys))
	for i, key := range keys {
		same[i], gets[i] = clientv3.Compare(clientv3.LeaseValue(key), "=", lease), clientv3.OpGet(key)
	}
	r, err := renewal(ctx, s.extra, func(ctx context.Context, over requests) (*clientv3.TxnResponse, error) {
		return over.Txn(ctx).If(same...).Else(gets...).Commit()
	})
	if err != nil {
		return nil, s.errorOf(err)
	}
	own := make([]bool, len(keys))
	for i := range own {
		own[i] = r.Succeeded
		if !r.Succeeded {
			kvs := r.Responses[i].GetResponseRange().Kvs
			own[i] = len(kvs) > 0 && kvs[0].Lease == lease
		}
	}
	return own, nil
}

// Own returns the entries of the keys of the lease. It makes one attempt only, because no
// caller waits for the result.
func (s *store) Own(ctx context.Context, session int64) ([]ordered.Entry, error) {
	r, err := s.client.TimeToLive(ctx, clientv3.LeaseID(session), clientv3.WithAttachedKeys())
	if err != nil {
		return nil, s.errorOf(err)
	}
	if r.TTL < 0 {
		return nil, errLeaseEnded
	}
	entries := make([]ordered.Entry, 0, len(r.Keys))
	for _, key := range r.Keys {
		name, m, ok := parseKey(string(key))
		if ok {
			m.ID, ok = s.keys.claimOf(session, name, m.ID)
		}
		if ok {
			entries = append(entries, ordered.Entry{Name: name, Key: string(key), Label: m})
		}
	}
	return entries, nil
}

// Enqueue puts the key, unless it exists, and reads the queue in the same transaction.
func (s *store) Enqueue(ctx context.Context, session int64, name string, m ordered.Label, note string, alone bool) ([]ordered.Entry, error) {
	entries, taken, err := s.enqueue(ctx, session, name, m, note, alone, 0)
	if taken && !alone { // a released claim of this process keeps the key for Claim.AtLeast; at most one claim does so
		entries, _, err = s.enqueue(ctx, session, name, m, note, alone, 1)
	}
	return entries, err
}

// enqueue does what Enqueue does, with a key whose suffix is not lower than the number `from`.
// `taken` reports whether another claim has that key.
func (s *store) enqueue(ctx context.Context, session int64, name string, m ordered.Label, note string, alone bool, from int) (entries []ordered.Entry, taken bool, err error) {
	use := s.keys.begin(session, name, m.ID, from)
	key := keyOf(session, name, m, use.text)
	none := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	if alone {
		none = clientv3.Compare(clientv3.CreateRevision(below(name)), "=", 0).WithPrefix()
	}
	read := clientv3.OpGet(below(name), clientv3.WithPrefix())
	put := clientv3.OpPut(key, note, clientv3.WithLease(clientv3.LeaseID(session)))
	r, err := s.client.Txn(untimed{ctx}).If(none).Then(read, put).Else(read).Commit() // the reading comes first, so that the answer is short if nobody else is in the queue
	if err = s.errorOf(err); err != nil {
		s.keys.endPut(use, false, err)
		return nil, false, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if r.Succeeded {
		s.keys.endPut(use, true, nil)
		entries, err = parseQueue(kvs, name)
		own := ordered.Entry{Name: name, Key: key, Order: uint64(r.Header.Revision), Label: m, Note: note, Session: session}
		return append(entries, own), false, err
	}
	i := slices.IndexFunc(kvs, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == key })
	if taken = i >= 0 && ordered.ClaimOf(string(kvs[i].Value)) != m.ID; taken {
		s.keys.endRemove(use, nil)
	} else {
		s.keys.endPut(use, i >= 0, nil)
	}
	entries, err = parseQueue(kvs, name)
	return entries, taken, err
}

// Queue reads the queue. Its entries are complete.
func (s *store) Queue(ctx context.Context, name string, last uint64, _ bool) ([]ordered.Entry, error) {
	r, err := s.client.Get(ctx, below(name), clientv3.WithPrefix(), clientv3.WithMaxCreateRev(int64(last)))
	if err != nil {
		return nil, s.errorOf(err)
	}
	return parseQueue(r.Kvs, name)
}

// parseQueue returns the entries of the keys of a name, in the order of their create revisions.
// It leaves out the keys of longer names.
func parseQueue(kvs []*mvccpb.KeyValue, name string) ([]ordered.Entry, error) {
	entries := make([]ordered.Entry, 0, len(kvs))
	for _, kv := range kvs {
		e, ok, err := parseEntry(kv, name)
		if err != nil {
			return nil, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b ordered.Entry) int { return cmp.Compare(a.Order, b.Order) })
	return entries, nil
}

// Remove deletes the key. It needs no comparison, because only this claim has the key.
func (s *store) Remove(ctx context.Context, session int64, name string, m ordered.Label) (bool, error) {
	use := s.keys.begin(session, name, m.ID, -1)
	r, err := s.client.Delete(untimed{ctx}, keyOf(session, name, m, use.text))
	err = s.errorOf(err)
	s.keys.endRemove(use, err)
	if err != nil {
		return false, err
	}
	return r.Deleted > 0, nil
}

// Keep puts the key again, with a new lease that nothing renews. It does so only if the key has
// the lease of the session. The suffix of the key is free at once, although the key still
// exists: a claim that finds the key in use takes the next suffix.
func (s *store) Keep(ctx context.Context, session int64, name string, m ordered.Label, note string, rest time.Duration) (bool, error) {
	kept, err := s.client.Grant(ctx, int64((rest+time.Second-1)/time.Second))
	if err != nil {
		return false, s.errorOf(err)
	}
	use := s.keys.begin(session, name, m.ID, -1)
	key := keyOf(session, name, m, use.text)
	r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.LeaseValue(key), "=", session)).
		Then(clientv3.OpPut(key, note, clientv3.WithLease(kept.ID))).Commit()
	err = s.errorOf(err)
	s.keys.endRemove(use, err)
	if err != nil {
		return false, err
	}
	if !r.Succeeded {
		_, _ = s.client.Revoke(ctx, kept.ID) // if that fails, the lease expires
	}
	return r.Succeeded, nil
}

// Share puts the key a second time, with the same value and lease: a version above 1 means
// that the entry is shared. Other programs wait for the key as before.
func (s *store) Share(ctx context.Context, session int64, name string, m ordered.Label) (bool, error) {
	use := s.keys.begin(session, name, m.ID, -1)
	key := keyOf(session, name, m, use.text)
	r, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), "=", 1)).
		Then(clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())).
		Else(clientv3.OpGet(key, clientv3.WithCountOnly())).Commit()
	err = s.errorOf(err)
	s.keys.endShare(use, err)
	if err != nil {
		return false, err
	}
	return r.Succeeded || r.Responses[0].GetResponseRange().Count > 0, nil
}
