package etcdhold

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

const (
	scanPage    = 200 // how many keys one request of Names reads, at most
	readsAtOnce = 100 // how many keys one transaction reads or compares, at most; a server accepts up to 128
)

// Names reads the keys in their order, at first without their values, which may be large. All
// keys between two keys of one name begin with that name and a slash. So Names has to remember
// only the names with which the last key begins. If it has already yielded the name of the next
// key, this name is one of them.
func (s *store) Names(ctx context.Context, prefix string, b *budget.Budget) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
		if prefix == "" {
			from = "\x00"
		}
		var open []string // the names with which the last key begins; each name is a prefix of the next one
		for more := true; more; {
			page, err := s.page(ctx, from, end, b)
			if err != nil {
				yield(nil, err)
				return
			}
			var found []candidate
			for _, kv := range page.Kvs {
				key := string(kv.Key)
				from = key + "\x00"
				for len(open) > 0 && !strings.HasPrefix(key, below(open[len(open)-1])) {
					open = open[:len(open)-1]
				}
				name, _, ok := parseKey(key)
				if !ok || name == "" || !strings.HasPrefix(name, prefix) || len(open) > 0 && open[len(open)-1] == name {
					continue
				}
				open, found = append(open, name), append(found, candidate{name, key})
			}
			names, err := s.leased(ctx, found, b)
			if len(names) > 0 && !yield(names, nil) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			more = page.More
		}
	}
}

// page reads the next keys of the range that begins with the key `from`, and ends before the
// key `end`.
func (s *store) page(ctx context.Context, from, end string, b *budget.Budget) (*clientv3.GetResponse, error) {
	size, err := b.Page(ctx, scanPage)
	if err != nil {
		return nil, err
	}
	page, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(size)), clientv3.WithKeysOnly())
	return page, s.errorOf(err)
}

// candidate is a name that may be in use, with one of its keys.
type candidate struct{ name, key string }

// leased returns the name of each candidate in `found` whose key has a lease, or was deleted
// meanwhile. A key without a lease is data that only looks like a lock. leased reads the keys
// with their values, because etcd 3.7 returns no leases when it reads keys without values.
func (s *store) leased(ctx context.Context, found []candidate, b *budget.Budget) (names []string, err error) {
	for chunk := range slices.Chunk(found, readsAtOnce) {
		gets := make([]clientv3.Op, len(chunk))
		for i, c := range chunk {
			gets[i] = clientv3.OpGet(c.key)
		}
		b.Spent(len(gets))
		r, err := s.client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return names, s.errorOf(err)
		}
		for i, c := range chunk {
			kvs := r.Responses[i].GetResponseRange().Kvs
			if len(kvs) == 0 || kvs[0].Lease != 0 { // if the key was deleted, the name may have other keys
				names = append(names, c.name)
			}
		}
	}
	return names, nil
}

// FullQueue reads the queue. Its entries are complete.
func (s *store) FullQueue(ctx context.Context, name string) ([]ordered.Entry, error) {
	return s.Queue(ctx, name, 0, true)
}

// Complete does nothing, because the entries of FullQueue are complete.
func (s *store) Complete(context.Context, *ordered.Entry) (bool, error) { return true, nil }

// Remaining returns the remaining time of a lease, rounded up to seconds. Because etcd rounds
// that time down, Remaining adds a second, up to the TTL that etcd granted.
func (s *store) Remaining(ctx context.Context, session int64) (time.Duration, error) {
	r, err := s.client.TimeToLive(ctx, clientv3.LeaseID(session))
	switch {
	case err != nil:
		return 0, s.errorOf(err)
	case r.TTL < 0:
		return 0, errLeaseEnded
	}
	return time.Duration(min(r.TTL+1, r.GrantedTTL)) * time.Second, nil
}

// Show returns the key of an entry, with its lease, its create revision and its value.
func (s *store) Show(e ordered.Entry) admin.Key {
	return admin.Key{
		Name: claimKey(e), Type: "key",
		Value: fmt.Sprintf("lease → %x\ncreate revision → %d\nvalue → %q", e.Session, e.Order, e.Note),
	}
}
