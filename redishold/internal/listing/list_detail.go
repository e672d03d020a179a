package listing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	detailMembers = 64  // maximal number of members that Describe shows of a hash, a list or a sorted set
	detailBytes   = 512 // maximal number of bytes that Describe shows of a string or of a member
)

// Describe returns the Record of the lock called name, and the keys of that lock.
func Describe(ctx context.Context, c *clients.Clients, name string) (d admin.Detail, err error) {
	l, err := newLister(ctx, c)
	if err != nil {
		return d, err
	}
	records, err := l.fetch(ctx, []string{name})
	if err != nil {
		return d, err
	}
	d.Record = records[0]
	k := l.Layout.ComputeKeys(name)
	keys := l.detailKeys(k, d.Record)
	results := l.Do(ctx, wire.Call{
		Script: l.Script("list_keys"),
		Keys:   keys,
		Args:   []string{strconv.Itoa(detailMembers), strconv.Itoa(detailBytes)},
	}, l.WaitsCall(k))
	d.Waits = l.ParseWaits(results[1])
	if err := results[0].Err; err != nil {
		return admin.Detail{}, l.Layout.Classify(k, err)
	}
	list := wire.Read(results[0].Value)
	for _, name := range keys {
		key, ok := parseKey(list.Take())
		if !ok {
			return admin.Detail{}, wire.BadReply("list_keys", results[0].Value)
		}
		if key.Name = name; key.Type != "none" {
			d.Keys = append(d.Keys, key)
		}
		if name == layout.TokenKey(k) {
			d.Token, _ = strconv.ParseUint(key.Value, 10, 64)
		}
	}
	if !list.Done() {
		return admin.Detail{}, wire.BadReply("list_keys", results[0].Value)
	}
	return d, nil
}

// detailKeys returns all keys that the lock with the Record r may have.
func (l *lister) detailKeys(k layout.Keys, r admin.Record) []string {
	switch l.Layout.Name {
	case "plain":
		return []string{k.Lock}
	case "timestamp":
		return []string{k.Lock, l.Layout.Record(k)}
	default:
		queue, deadlines, alive := l.Layout.Queue(k)
		keys := []string{k.Lock, queue, deadlines, alive, l.Layout.Permits(k), layout.TokenKey(k)}
		for _, h := range r.Holds {
			for n := 1; h.Mode == driver.Shared && n <= h.Holds && len(keys) < 2*detailMembers; n++ {
				keys = append(keys, layout.TimeoutKey(k, h.Owner, n))
			}
		}
		return keys
	}
}

// parseKey returns the Key in one element of the reply of list_keys.lua, without the name of
// the key.
func parseKey(value any) (admin.Key, bool) {
	r := wire.Read(value)
	key := admin.Key{Type: r.Text(), Remaining: wire.Remaining(r.Number())}
	size := int(r.Number())
	switch value := r.Take().(type) {
	case string:
		key.Value = printable(value)
		if len(value) < size {
			key.Value += fmt.Sprintf("… (%d bytes)", size)
		}
	case []any:
		members, ok := wire.Texts(value)
		if !ok {
			return key, false
		}
		key.Value = memberLines(key.Type, members, size)
	default:
		return key, false
	}
	return key, r.Done()
}

// memberLines returns the members of a key as text. Each line has one member, and the value or
// the score of this member if it has one.
func memberLines(kind string, members []string, size int) string {
	step := 2 // field and value, or member and score
	if kind == "list" {
		step = 1
	}
	var text []string
	for member := range slices.Chunk(members, step) {
		line := printable(member[0])
		if len(member) == 2 {
			line += " → " + printable(member[1])
		}
		text = append(text, line)
	}
	if len(text) < size {
		text = append(text, fmt.Sprintf("… (%d in all)", size))
	}
	return strings.Join(text, "\n")
}

// printable returns s with escape sequences of Go for characters that are not printable. It cuts
// s if s is long.
func printable(s string) string {
	cut := ""
	if len(s) > detailBytes {
		s, cut = s[:detailBytes], "…"
	}
	quoted := strconv.QuoteToGraphic(s)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(quoted[1:len(quoted)-1]) + cut
}

// ForceReasons returns for each element of `ended` the reason in the tombstone of its owner, or
// "" if the owner has no tombstone of a force unlock.
func ForceReasons(ctx context.Context, c *clients.Clients, ended []admin.Ended) ([]string, error) {
	why := make([]string, len(ended))
	l, err := newLister(ctx, c)
	if err != nil {
		return why, err
	}
	var keys []string
	var asked []int // for each key, its index in `ended`
	for i, e := range ended {
		k := l.Layout.ComputeKeys(e.Name)
		if l.server.Cluster && layout.CheckSlots(k) != nil {
			continue // the cluster cannot have this lock
		}
		owner := e.Owner
		if l.Layout.Name == "" {
			owner = strings.TrimSuffix(owner, layout.WriteField) // both sides of a read-write lock have one tombstone
		}
		keys, asked = append(keys, l.Layout.Tombstone(k, owner)), append(asked, i)
	}
	if len(keys) == 0 {
		return why, nil
	}
	calls := clients.Paged(l.Script("list_tombstones"), keys, l.server.Cluster)
	var failed error
	for i, result := range l.Do(ctx, calls...) {
		page := asked[:len(calls[i].Keys)]
		asked = asked[len(page):]
		tombstones, ok := wire.Texts(result.Value)
		if result.Err == nil && (!ok || len(tombstones) != len(page)) {
			result.Err = wire.BadReply("list_tombstones", result.Value)
		}
		if result.Err != nil {
			failed = cmp.Or(failed, l.Layout.Classify(l.Layout.ComputeKeys(ended[page[0]].Name), result.Err))
			continue
		}
		for j, at := range page {
			if reason, forced := strings.CutPrefix(tombstones[j], layout.ForcedPrefix); forced { // a tombstone without the prefix is that of an abandoned claim
				why[at] = reason
			}
		}
	}
	return why, failed
}
