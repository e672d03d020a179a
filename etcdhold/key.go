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

// idLength is the length of ordered.Mark.ID.
const idLength = 16

// below is what the keys of a name begin with.
func below(name string) string { return name + "/" }

// keyOf returns the key of a claim.
func keyOf(lease int64, name string, m ordered.Mark, suffix string) string {
	kind := string(m.Kind)
	if m.Kind == ordered.Permit {
		kind += strconv.Itoa(m.Permits)
	}
	return fmt.Sprintf("%s/%x-%s-%s", name, lease, kind, suffix)
}

// parseKey takes a key apart. ok says that it is the key of a claim of that name, of this
// package or another program: after the last slash it has a lease. The keys of a name
// that continues this one have a slash behind it. The ID is the suffix.
func parseKey(key string) (name string, m ordered.Mark, ok bool) {
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
		return name, ordered.Mark{Kind: ordered.Mutex}, true
	}
	kind, id, _ := strings.Cut(mark, "-")
	if len(id) != idLength || !hexadecimal(id) {
		return "", m, false
	}
	m = ordered.Mark{Kind: ordered.Kind(kind), ID: id}
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

// hexadecimal says that s has no other bytes than those of %x.
func hexadecimal(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// shared marks ordered.Entry.Key of an entry that is shared: its key in etcd stays.
const shared = " shared"

// claimKey returns the key of an entry in etcd.
func claimKey(e ordered.Entry) string { return strings.TrimSuffix(e.Key, shared) }

// entry makes an entry of a key below name. ok is false if the key is none of a claim of
// that name. The error says that the key is data that is no lock.
func entry(kv *mvccpb.KeyValue, name string) (e ordered.Entry, ok bool, err error) {
	of, m, ok := parseKey(string(kv.Key))
	if !ok || of != name {
		return e, false, nil
	}
	if kv.Lease == 0 {
		return e, false, fmt.Errorf("the key %q has no lease, and would keep the name taken forever: %w", kv.Key, driver.ErrMismatch)
	}
	if m.ID != "" {
		m.ID = cmp.Or(ordered.ClaimOf(string(kv.Value)), m.ID)
	}
	e = ordered.Entry{Name: name, Key: string(kv.Key), Order: uint64(kv.CreateRevision), Mark: m, Note: string(kv.Value), Session: kv.Lease}
	if m.Kind == ordered.Writer && kv.Version > 1 {
		e.Shared, e.Key = true, e.Key+shared
	}
	return e, true, nil
}
