package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// The functions below show operators the holds that a majority of the members has. If fewer
// members have a hold, some call is acquiring or releasing that hold, or an earlier call did
// not release it at all members.

var _ admin.Source = (*Backend)(nil)

// errNoSource is the error of a member that cannot list its locks.
var errNoSource = fmt.Errorf("quorum: the members cannot list their locks: %w", errors.ErrUnsupported)

// List yields the names that have the same hold at a majority of the members. It reads all
// members before it yields the first name. It ends with an error if it could not read a
// majority of the members completely.
func (b *Backend) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		f.Skip, f.Progress = nil, nil // the state of a name is that of a majority, and the keys are those of several stores
		lists, err := askAll(ctx, b, func(ctx context.Context, s admin.Source) (list map[string]admin.Record, err error) {
			list = map[string]admin.Record{}
			for record, failed := range s.List(ctx, f) {
				if failed != nil {
					return list, failed
				}
				list[record.Name] = record
			}
			return list, nil
		})
		names := map[string]bool{}
		for _, list := range lists {
			for name := range list {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			var copies []admin.Record
			for _, list := range lists {
				copies = append(copies, list[name])
			}
			if merged := b.merge(name, copies); len(merged.Holds) > 0 && !yield(merged, nil) {
				return
			}
		}
		if err != nil {
			yield(admin.Record{}, err)
		}
	}
}

// Get returns the state of the names at a majority of the members. A name counts as free if
// only a minority of the members has a hold of it.
func (b *Backend) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	answers, err := askAll(ctx, b, func(ctx context.Context, s admin.Source) ([]admin.Record, error) {
		return s.Get(ctx, names...)
	})
	records := make([]admin.Record, len(names))
	for i, name := range names {
		if err != nil {
			records[i] = admin.Record{Name: name, Kind: admin.KindUnknown}
			continue
		}
		var copies []admin.Record
		for _, answer := range answers {
			if i < len(answer) {
				copies = append(copies, answer[i])
			}
		}
		records[i] = b.merge(name, copies)
	}
	return records, err
}

// Describe returns the state of the name at a majority of the members, and the keys at all
// members. The name of each key begins with the label of its member.
func (b *Backend) Describe(ctx context.Context, name string) (admin.Detail, error) {
	details, err := askAll(ctx, b, func(ctx context.Context, s admin.Source) (admin.Detail, error) {
		return s.Describe(ctx, name)
	})
	if err != nil {
		return admin.Detail{}, err
	}
	var merged admin.Detail
	var copies []admin.Record
	for i, detail := range details {
		copies = append(copies, detail.Record)
		for _, key := range detail.Keys {
			key.Name = b.nodes[i].label + ": " + key.Name
			merged.Keys = append(merged.Keys, key)
		}
		if len(detail.Waits) > len(merged.Waits) {
			merged.Waits = detail.Waits
		}
	}
	merged.Record = b.merge(name, copies)
	return merged, nil
}

// ForceUnlock ends the hold at all members. It returns nil if a majority of the members
// answered. It returns driver.ErrGone if a majority did not have the hold any more.
func (b *Backend) ForceUnlock(ctx context.Context, name string, h admin.Holder, reason string) error {
	answers, err := askAll(ctx, b, func(ctx context.Context, s admin.Source) (gone bool, err error) {
		err = forceAt(ctx, s, name, h, reason)
		if errors.Is(err, driver.ErrGone) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	gone := 0
	for _, one := range answers {
		if one {
			gone++
		}
	}
	if gone >= b.majority { // a hold of a minority is no hold of the quorum
		return &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: "a majority of the members does not keep that hold any more"}
	}
	return nil
}

// forceAt ends the hold of h.Owner at one member. It first reads the hold from that member,
// because the owner of the hold contains the number of an attempt there, and other fields may
// differ.
func forceAt(ctx context.Context, s admin.Source, name string, h admin.Holder, reason string) error {
	records, err := s.Get(ctx, name)
	if err != nil {
		return err
	}
	for _, hold := range records[0].Holds {
		if ownerOf(hold.Owner) == h.Owner && hold.Holds == h.Holds {
			h = hold.Holder
			break
		}
	}
	return s.ForceUnlock(ctx, name, h, reason) // returns driver.ErrGone if the hold is gone
}

// ownerOf returns the owner of a claim. The parameter `member` is the owner under which a
// member knows the claim: it ends in the number of an attempt. Owners of other programs have no
// such number, and ownerOf returns them unchanged.
func ownerOf(member string) string {
	owner, number, ok := strings.Cut(member[strings.LastIndexByte(member, ':')+1:], ".")
	if _, err := strconv.ParseUint(number, 36, 64); !ok || err != nil || strings.Trim(owner, "0123456789") != "" {
		return member
	}
	return strings.TrimSuffix(member, "."+number)
}

// ForceReasons returns errors.ErrUnsupported: the members know a hold only by the owner of
// its attempt, and that owner is not known any more when the hold has ended.
func (b *Backend) ForceReasons(context.Context, []admin.Ended) ([]string, error) {
	return nil, fmt.Errorf("quorum: no reasons of force unlocks: %w", errors.ErrUnsupported)
}

// AppendLog returns errors.ErrUnsupported: each member would have a different log.
func (b *Backend) AppendLog(context.Context, admin.Client, []admin.Entry) error { return errNoLog() }

// ReadLog returns errors.ErrUnsupported, like AppendLog.
func (b *Backend) ReadLog(context.Context, admin.LogFilter) ([]admin.Entry, error) {
	return nil, errNoLog()
}

func errNoLog() error {
	return fmt.Errorf("quorum: no event log: %w", errors.ErrUnsupported)
}

// restLeast is the shortest time that askAll waits for the other members after a majority has
// answered. If the majority needed longer than restLeast, askAll waits for the other members as
// long as the majority needed.
const restLeast = 100 * time.Millisecond

// askAll asks all members at the same time, and returns their answers in the order of the
// members, also the partial answer of a member that failed. The error is nil if a majority
// answered without an error.
func askAll[T any](ctx context.Context, b *Backend, ask func(context.Context, admin.Source) (T, error)) ([]T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers, errs := make([]T, len(b.nodes)), make([]error, len(b.nodes))
	began, answered := time.Now(), atomic.Int64{}
	var wg sync.WaitGroup
	for i, n := range b.nodes {
		wg.Go(func() {
			defer func() {
				if errs[i] == nil && answered.Add(1) == int64(b.majority) {
					time.AfterFunc(max(time.Since(began), restLeast), cancel)
				}
			}()
			answers[i], errs[i] = call(ctx, n, func(ctx context.Context) (T, error) {
				if s, ok := n.member.(admin.Source); ok {
					return ask(ctx, s)
				}
				var none T
				return none, errNoSource
			})
		})
	}
	wg.Wait()
	failed := 0
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", b.nodes[i].label, err)
			failed++
		}
	}
	if len(b.nodes)-failed >= b.majority {
		return answers, nil
	}
	return answers, errors.Join(errs...)
}

// merge returns one record of the name, made from the records of the members. That record has
// the holds that a majority of the members has. Remaining of a hold is the time for which a
// majority will keep the hold.
func (b *Backend) merge(name string, copies []admin.Record) admin.Record {
	merged := admin.Record{Name: name}
	holds, kinds := map[string][]admin.Hold{}, map[admin.Kind]int{}
	for _, r := range copies {
		if r.Kind != "" {
			kinds[r.Kind]++
		}
		merged.Listeners = max(merged.Listeners, r.Listeners)
		for _, h := range r.Holds {
			holds[h.Owner] = append(holds[h.Owner], h)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(holds)) {
		if same := holds[owner]; len(same) >= b.majority {
			merged.Holds = append(merged.Holds, b.mergeHold(same))
		}
	}
	merged.Holders = len(merged.Holds)
	for kind, votes := range kinds {
		if votes >= b.majority && (merged.Holders > 0 || kind == admin.KindOther) {
			merged.Kind = kind
		}
	}
	for _, h := range merged.Holds {
		merged.Remaining = max(merged.Remaining, h.Remaining)
	}
	return merged
}

// mergeHold returns one hold, made from the holds of the same owner at several members.
func (b *Backend) mergeHold(same []admin.Hold) admin.Hold {
	last := func(field func(admin.Hold) time.Duration) time.Duration {
		all := make([]time.Duration, len(same))
		for i, h := range same {
			all[i] = field(h)
		}
		slices.SortFunc(all, func(x, y time.Duration) int { return cmp.Compare(y, x) })
		return all[b.majority-1]
	}
	h := same[0]
	h.Owner = ownerOf(h.Owner)
	h.Token = 0 // a quorum has no tokens
	h.Remaining = last(func(h admin.Hold) time.Duration { return h.Remaining })
	h.HeldFor = last(func(h admin.Hold) time.Duration { return h.HeldFor })
	return h
}
