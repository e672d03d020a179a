package redishold

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// parseLooked reads one element of what list_look.lua answers, but for the name
// and who the owners are.
func parseLooked(value any) (admin.Record, bool) {
	r := reading{list: asList(value), ok: true}
	var record admin.Record
	switch r.text() {
	case "free":
		r.take() // no time
		r.take() // no fields
		r.take()
		r.waiters(&record, asList(r.take()))
	case "hash":
		record.Remaining = remaining(r.number())
		r.hash(&record)
	case "readers":
		record.Kind = admin.KindReadWrite
		record.Remaining = remaining(r.number())
		r.readers(&record)
	case "number":
		record.Remaining = remaining(r.number())
		r.counter(&record)
	case "other":
		record.Kind = admin.KindOther
	default:
		return record, false
	}
	listeners, latch := int(r.number()), int(r.number())
	record.Listeners = max(listeners, latch)
	if record.Kind == admin.KindCounter && latch > 0 && listeners == 0 {
		record.Kind = admin.KindLatch
	}
	return record, r.ok && len(r.list) == 0
}

// reading takes a reply apart from its front. Once something is not what it
// should be, ok is false.
type reading struct {
	list []any
	ok   bool
}

func asList(value any) []any {
	list, _ := value.([]any)
	return list
}

func (r *reading) take() any {
	if len(r.list) == 0 {
		r.ok = false
		return nil
	}
	first := r.list[0]
	r.list = r.list[1:]
	return first
}

func (r *reading) text() string {
	text, ok := r.take().(string)
	r.ok = r.ok && ok
	return text
}

func (r *reading) number() int64 {
	number, ok := r.take().(int64)
	r.ok = r.ok && ok
	return number
}

// more reports that there is something left, as long as all went well.
func (r *reading) more() bool { return r.ok && len(r.list) > 0 }

// hash reads the lock that a hash is, if it is one: a mutex, a fair lock, or
// Redisson's lock on several values.
func (r *reading) hash(record *admin.Record) {
	fields := reading{list: asList(r.take()), ok: r.ok}
	record.Holders = int(r.number())
	waiters := asList(r.take())
	record.Kind = admin.KindMutex
	for fields.more() {
		owner, text := fields.text(), fields.text()
		holds, err := strconv.Atoi(text)
		switch {
		case !fields.ok:
			r.ok = false
			return
		case clientOf(text) != "" || strings.HasSuffix(owner, ":expire_time") || strings.HasSuffix(owner, ":lock_count"):
			record.Kind, record.Holds, record.Holders = admin.KindMulti, nil, 0
			return
		case err != nil || clientOf(owner) == "":
			*record = admin.Record{Kind: admin.KindOther}
			return
		}
		record.Holds = append(record.Holds, admin.Hold{
			Holder: admin.Holder{Owner: owner, Holds: holds, Remaining: record.Remaining},
		})
	}
	r.ok = r.ok && fields.ok
	r.waiters(record, waiters)
}

// readers reads the holds of a read-write lock. A Redisson
// thread may have both sides under one owner. Then the write hold keeps its field's
// name, so that ForceUnlock knows which one is meant.
func (r *reading) readers(record *admin.Record) {
	fields := reading{list: asList(r.take()), ok: r.ok}
	record.Holders = int(r.number())
	both := map[string]bool{}
	for fields.more() {
		field, text, pttl := fields.text(), fields.text(), fields.number()
		holds, err := strconv.Atoi(text)
		if err != nil || clientOf(field) == "" {
			r.ok = r.ok && fields.ok
			*record = admin.Record{Kind: admin.KindOther}
			return
		}
		hold := admin.Hold{
			Holder: admin.Holder{Owner: field, Holds: holds, Remaining: remaining(pttl)},
			Mode:   driver.Shared,
		}
		if strings.Contains(field+":", ":write:") {
			hold.Mode = driver.Exclusive
		} else {
			both[field] = true
		}
		record.Holds = append(record.Holds, hold)
	}
	for i, h := range record.Holds {
		if owner := strings.TrimSuffix(h.Owner, writeField); !both[owner] {
			record.Holds[i].Owner = owner
		}
	}
	r.ok = r.ok && fields.ok
	if record.Holders <= listShown {
		record.Holders = len(record.Holds) // without readers that died
	}
}

// counter reads a number, with the permits that are out beside it.
func (r *reading) counter(record *admin.Record) {
	value, out, expired := r.text(), int(r.number()), int(r.number())
	permits := reading{list: asList(r.take()), ok: r.ok}
	count, err := strconv.ParseInt(value, 10, 64)
	switch {
	case value == "" && out > 0: // the counter was lost
	case err != nil:
		record.Kind = admin.KindOther
		return
	case out+expired == 0:
		record.Kind, record.Count = admin.KindCounter, count
		return
	}
	record.Kind, record.Holders = admin.KindSemaphore, out
	record.Free = int(count) + expired
	record.Permits = record.Free + out
	if value == "" {
		record.Free, record.Permits = -out, 0
	}
	for permits.more() {
		id, left := permits.text(), permits.number()
		record.Holds = append(record.Holds, anonymous(id, left))
	}
	r.ok = r.ok && permits.ok
}

// waiters reads a queue. A lock that has one is fair.
func (r *reading) waiters(record *admin.Record, list []any) {
	queue := reading{list: list, ok: r.ok}
	record.Waiting = int(queue.number())
	for queue.more() {
		owner, left := queue.text(), queue.number()
		record.Waiters = append(record.Waiters, admin.Queued{Owner: owner, Remaining: remaining(left)})
	}
	if r.ok = r.ok && queue.ok; record.Waiting > 0 {
		record.Kind = admin.KindFair
	}
}

// parseString reads one element of what list_plain.lua or list_timestamp.lua answers.
func (l *lister) parseString(value any) (admin.Record, bool) {
	r := reading{list: asList(value), ok: true}
	state, pttl, owner := r.text(), r.number(), r.text()
	record := admin.Record{Remaining: remaining(pttl), Listeners: int(r.number())}
	kind, left := admin.KindPlain, record.Remaining
	if l.options.Protocol == Timestamp {
		kind, left = admin.KindTimestamp, remaining(r.number())
	}
	switch state {
	case "other":
		record.Kind = admin.KindOther
	case "string":
		record.Kind, record.Holders = kind, 1
		record.Holds = []admin.Hold{{Holder: admin.Holder{Owner: owner, Holds: 1, Remaining: left}}}
	}
	return record, r.ok && len(r.list) == 0
}

// clientOf returns the UUID of the client that an owner of Redisson's layout
// begins with, "" if it is none.
func clientOf(owner string) string {
	const length = 36
	if len(owner) < length+2 || owner[length] != ':' || !isUUID(owner[:length]) {
		return ""
	}
	return owner[:length]
}
