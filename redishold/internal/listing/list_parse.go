package listing

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// parseRedisson returns the Record in one element of the reply of list_redisson.lua, without
// the name of the lock and without the clients of the owners.
func parseRedisson(value any) (admin.Record, bool) {
	r := wire.Read(value)
	var record admin.Record
	switch r.Text() {
	case "free":
		r.Take() // pttl
		r.Take() // fields
		r.Take() // number of holders
		readWaiters(r.Nested(), &record)
	case "hash":
		record.Remaining = wire.Remaining(r.Number())
		readHash(&r, &record)
	case "readers":
		record.Kind = admin.KindReadWrite
		record.Remaining = wire.Remaining(r.Number())
		readReaders(&r, &record)
	case "number":
		record.Remaining = wire.Remaining(r.Number())
		readCounter(&r, &record)
	case "other":
		record.Kind = admin.KindOther
	default:
		return record, false
	}
	listeners, latch := int(r.Number()), int(r.Number())
	record.Listeners = max(listeners, latch)
	if record.Kind == admin.KindCounter && latch > 0 && listeners == 0 {
		record.Kind = admin.KindLatch
	}
	return record, r.Done()
}

// readHash reads the lock in a hash: a mutex, a fair lock, or Redisson's lock on several values.
// If the hash is no lock, the Kind of the Record is KindOther.
func readHash(r *wire.Reply, record *admin.Record) {
	fields := r.Nested()
	record.Holders = int(r.Number())
	waiters := r.Nested()
	record.Kind = admin.KindMutex
	for fields.More() {
		owner, text := fields.Text(), fields.Text()
		holds, err := strconv.Atoi(text)
		switch {
		case layout.ClientOf(text) != "" || strings.HasSuffix(owner, ":expire_time") || strings.HasSuffix(owner, ":lock_count"):
			record.Kind, record.Holds, record.Holders = admin.KindMulti, nil, 0
			return
		case err != nil || layout.ClientOf(owner) == "":
			*record = admin.Record{Kind: admin.KindOther}
			return
		}
		holder := admin.Holder{Owner: owner, Holds: holds, Remaining: record.Remaining}
		record.Holds = append(record.Holds, admin.Hold{Holder: holder})
	}
	readWaiters(waiters, record)
}

// readReaders reads the holds of a read-write lock. The Owner of each hold is its field, and its
// Remaining is that of the lock.
func readReaders(r *wire.Reply, record *admin.Record) {
	fields := r.Nested()
	record.Holders = int(r.Number())
	for fields.More() {
		field, text := fields.Text(), fields.Text()
		if field == "mode" {
			continue
		}
		holds, err := strconv.Atoi(text)
		if err != nil || layout.ClientOf(field) == "" {
			*record = admin.Record{Kind: admin.KindOther}
			return
		}
		mode := driver.Exclusive
		if !strings.Contains(field+":", ":write:") {
			mode = driver.Shared
		}
		holder := admin.Holder{Owner: field, Holds: holds, Remaining: record.Remaining}
		record.Holds = append(record.Holds, admin.Hold{Holder: holder, Mode: mode})
	}
}

// readCounter reads a counter. If permits are held or have expired, the counter belongs to a
// semaphore. Otherwise it is a bare counter.
func readCounter(r *wire.Reply, record *admin.Record) {
	value, held, expired := r.Text(), int(r.Number()), int(r.Number())
	permits := r.Nested()
	count, err := strconv.ParseInt(value, 10, 64)
	switch {
	case value == "" && held > 0: // the counter was lost
	case err != nil:
		record.Kind = admin.KindOther
		return
	case held+expired == 0:
		record.Kind, record.Count = admin.KindCounter, count
		return
	}
	record.Kind, record.Holders = admin.KindSemaphore, held
	record.Free = int(count) + expired
	record.Permits = record.Free + held
	if value == "" {
		record.Free, record.Permits = -held, 0
	}
	for permits.More() {
		owner := hex.EncodeToString([]byte(permits.Text()))
		holder := admin.Holder{Owner: owner, Note: "a permit", Holds: 1, Remaining: wire.Remaining(permits.Number())}
		record.Holds = append(record.Holds, admin.Hold{Holder: holder, Mode: driver.Permit})
	}
}

// readWaiters reads a queue. A lock with a queue is a fair lock.
func readWaiters(queue wire.Reply, record *admin.Record) {
	record.Waiting = int(queue.Number())
	for queue.More() {
		owner, left := queue.Text(), queue.Number()
		record.Waiters = append(record.Waiters, admin.Waiter{Owner: owner, Remaining: wire.Remaining(left)})
	}
	if record.Waiting > 0 {
		record.Kind = admin.KindFair
	}
}

// parseString returns the Record in one element of the reply of list_plain.lua or
// list_timestamp.lua, without the name of the lock.
func (l *lister) parseString(value any) (admin.Record, bool) {
	r := wire.Read(value)
	state, pttl, owner := r.Text(), r.Number(), r.Text()
	record := admin.Record{Remaining: wire.Remaining(pttl), Listeners: int(r.Number())}
	kind, left := admin.KindPlain, record.Remaining
	if l.Layout.Name == "timestamp" {
		kind, left = admin.KindTimestamp, wire.Remaining(r.Number())
	}
	switch state {
	case "other":
		record.Kind = admin.KindOther
	case "string":
		record.Kind, record.Holders = kind, 1
		record.Holds = []admin.Hold{{Holder: admin.Holder{Owner: owner, Holds: 1, Remaining: left}}}
	}
	return record, r.Done()
}
