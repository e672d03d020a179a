package etcdhold

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// idLength is the length of ordered.Label.ID.
const idLength = 16

// below returns the prefix of the keys of a name.
func below(name string) string { return name + "/" }

// keyOf returns the key of a claim.
func keyOf(lease int64, name string, m ordered.Label, suffix string) string {
	var room [128]byte
	key := append(room[:0], name...)
	key = append(key, '/')
	key = strconv.AppendUint(key, uint64(lease), 16)
	key = append(key, '-')
	key = append(key, m.Kind...)
	if m.Kind == ordered.Permit {
		key = strconv.AppendInt(key, int64(m.Permits), 10)
	}
	key = append(key, '-')
	return string(append(key, suffix...))
}

// parseKey returns the name and the label in a key. `ok` is false if the key does not belong to
// a claim, neither of this package nor of another program. The key of a claim has the ID of a
// lease after its last slash. So a key of the name "job/1" is not a key of the name "job". In
// the label, ID is the suffix of the key, or "" if another program made the key.
func parseKey(key string) (name string, m ordered.Label, ok bool) {
	slash := strings.LastIndexByte(key, '/')
	if slash < 0 {
		return "", m, false
	}
	name = key[:slash]
	lease, mark, ours := strings.Cut(key[slash+1:], "-")
	if lease == "" || len(lease) > 16 || !hexadecimal(lease) {
		return "", m, false
	}
	if !ours {
		return name, ordered.Label{Kind: ordered.Mutex}, true
	}
	kind, id, _ := strings.Cut(mark, "-")
	if len(id) != idLength || !hexadecimal(id) {
		return "", m, false
	}
	m = ordered.Label{Kind: ordered.Kind(kind), ID: id}
	switch m.Kind {
	case ordered.Mutex, ordered.Writer, ordered.Reader:
		return name, m, true
	}
	number, permit := strings.CutPrefix(kind, string(ordered.Permit))
	n, err := strconv.ParseUint(number, 10, 31)
	if !permit || err != nil || number[0] == '+' {
		return "", m, false
	}
	m.Kind, m.Permits = ordered.Permit, int(n)
	return name, m, true
}

// hexadecimal reports whether s consists of hexadecimal digits in lower case.
func hexadecimal(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// shared is appended to the ordered.Entry.Key of a shared entry. So Entry.Key changes when the
// entry becomes shared, although its key in etcd does not.
const shared = " shared"

// claimKey returns the key that an entry has in etcd.
func claimKey(e ordered.Entry) string { return strings.TrimSuffix(e.Key, shared) }

// parseEntry returns the entry of a key below the name. `ok` is false if the key does not
// belong to a claim for this name. If the key looks like that of a claim, but has no lease, the
// error is driver.ErrMismatch.
func parseEntry(kv *mvccpb.KeyValue, name string) (e ordered.Entry, ok bool, err error) {
	of, m, ok := parseKey(string(kv.Key))
	if !ok || of != name {
		return e, false, nil
	}
	if kv.Lease == 0 {
		return e, false, fmt.Errorf("the key %q has no lease, so it would keep the name taken forever; delete the key: %w", kv.Key, driver.ErrMismatch)
	}
	if m.ID != "" {
		m.ID = cmp.Or(ordered.ClaimOf(string(kv.Value)), m.ID)
	}
	e = ordered.Entry{Name: name, Key: string(kv.Key), Order: uint64(kv.CreateRevision), Label: m, Note: string(kv.Value), Session: kv.Lease}
	if m.Kind == ordered.Writer && kv.Version > 1 {
		e.Shared, e.Key = true, e.Key+shared
	}
	return e, true, nil
}
