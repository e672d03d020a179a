package redishold

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	detailMembers = 64  // of a hash, a list or a sorted set
	detailBytes   = 512 // of a string, or of one member
)

// Describe returns what Look does of name, and its keys: those of all kinds of lock
// that the name could be, as far as they are there. Detail.Token is the counter of
// Redisson's RFencedLock, which Options.SharedTokens uses too; Holdfast's own
// counters belong to no single name. Rights are as for Look, with TYPE, STRLEN and
// ZCARD.
func (b *Backend) Describe(ctx context.Context, name string) (admin.Detail, error) {
	l, err := b.lister(ctx)
	if err != nil {
		return admin.Detail{}, err
	}
	records, err := l.look(ctx, []string{name})
	if err != nil {
		return admin.Detail{}, err
	}
	d := admin.Detail{Record: records[0]}
	p := l.layout.locate(name)
	keys := l.detailKeys(p, d.Record)
	results := l.do(ctx, Call{
		Script: l.scripts.keys,
		Keys:   keys,
		Args:   []string{strconv.Itoa(detailMembers), strconv.Itoa(detailBytes)},
	}, l.waitsCall(p))
	d.Waits = l.parseWaits(results[1])
	value, err := results[0].Value, results[0].Err
	if err != nil {
		return admin.Detail{}, l.classify(p, err)
	}
	list := asList(value)
	if len(list) != len(keys) {
		return admin.Detail{}, badReply(l.scripts.keys.Name(), value)
	}
	for i, element := range list {
		key, ok := parseKey(element)
		if !ok {
			return admin.Detail{}, badReply(l.scripts.keys.Name(), value)
		}
		if key.Type == "none" {
			continue
		}
		key.Name = keys[i]
		d.Keys = append(d.Keys, key)
		if key.Name == tokenKey(p) {
			d.Token, _ = strconv.ParseUint(key.Value, 10, 64)
		}
	}
	return d, nil
}

// tokenKey is Redisson's counter of fencing tokens.
func tokenKey(p place) string { return "redisson_lock_token:" + tagged(p.lock) }

// detailKeys returns the keys that the lock r, which lives at p, may have.
func (l *lister) detailKeys(p place, r admin.Record) []string {
	switch l.options.Protocol {
	case Plain:
		return []string{p.lock}
	case Timestamp:
		return []string{p.lock, l.layout.record(p)}
	default:
		queue, deadlines, alive := l.layout.queue(p)
		keys := []string{p.lock, queue, deadlines, alive, l.layout.permits(p), tokenKey(p)}
		for _, h := range r.Holds {
			for n := 1; h.Mode == driver.Shared && n <= h.Holds && len(keys) < 2*detailMembers; n++ {
				keys = append(keys, tagged(p.lock)+":"+h.Owner+":rwlock_timeout:"+strconv.Itoa(n))
			}
		}
		return keys
	}
}

// parseKey reads one element of what list_keys.lua answers, but for the name.
func parseKey(value any) (admin.Key, bool) {
	r := reading{list: asList(value), ok: true}
	key := admin.Key{Type: r.text(), Remaining: remaining(r.number())}
	size := int(r.number())
	switch value := r.take().(type) {
	case string:
		key.Value = shown(value)
		if len(value) < size {
			key.Value += fmt.Sprintf("… (%d bytes)", size)
		}
	case []any:
		members, ok := texts(value)
		r.ok = r.ok && ok
		key.Value = lines(key.Type, members, size)
	default:
		return key, false
	}
	return key, r.ok && len(r.list) == 0
}

// lines shows members, one on each line.
func lines(kind string, members []string, size int) string {
	var text strings.Builder
	step := 2 // field and value, or member and score
	if kind == "list" {
		step = 1
	}
	for i := 0; i+step <= len(members); i += step {
		text.WriteString(shown(members[i]))
		if step == 2 {
			text.WriteString(" → " + shown(members[i+1]))
		}
		text.WriteByte('\n')
	}
	if n := len(members) / step; n < size {
		fmt.Fprintf(&text, "… (%d in all)\n", size)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// shown returns s as text: what cannot be printed is escaped as in Go, and what
// is long is cut.
func shown(s string) string {
	cut := ""
	if len(s) > detailBytes {
		s, cut = s[:detailBytes], "…"
	}
	var text strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			quoted := strconv.QuoteToGraphic(s[:size])
			text.WriteString(quoted[1 : len(quoted)-1])
		} else {
			text.WriteRune(r)
		}
		s = s[size:]
	}
	return text.String() + cut
}
