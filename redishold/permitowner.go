package redishold

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// holders are the clients that take permits, by their stems.
type holders struct {
	registrar // of those of this process

	seen  sync.Mutex
	known map[string]knownStem
}

// knownStem is the answer to whose a stem is, remembered as names are.
type knownStem struct {
	uuid string // "" if nobody is registered
	ends time.Time
}

// get returns whose a stem is, if that was asked for, and whether that was lately.
func (h *holders) get(stem string) (uuid string, ok, fresh bool) {
	h.seen.Lock()
	defer h.seen.Unlock()
	known, ok := h.known[stem]
	return known.uuid, ok, ok && time.Now().Before(known.ends)
}

// put remembers whose a stem is.
func (h *holders) put(stem, uuid string) {
	life := nameLife
	if uuid == "" {
		life = strangerLife
	}
	h.seen.Lock()
	defer h.seen.Unlock()
	if h.known == nil || len(h.known) >= maxPeople {
		h.known = map[string]knownStem{}
	}
	h.known[stem] = knownStem{uuid, time.Now().Add(life)}
}

// permitOwner returns whose permit id is, "" if nobody is registered for it. It
// asks the server at most once in a while.
func (b *Backend) permitOwner(ctx context.Context, id string) string {
	stem, number, ok := cutPermit(id)
	if !ok {
		return ""
	}
	if uuid := b.whose(ctx, false, map[string]bool{stem: true})[stem]; uuid != "" {
		return uuid + ":" + number
	}
	return ""
}

// identify puts owners in place of the ids of permits, as far as clients are
// registered for them. A failure costs nothing but the names.
func (b *Backend) identify(ctx context.Context, cluster bool, records []admin.Record) {
	type permit struct {
		hold         *admin.Hold
		stem, number string
	}
	var permits []permit
	stems := map[string]bool{}
	for i := range records {
		for j := range records[i].Holds {
			h := &records[i].Holds[j]
			if h.Mode != driver.Permit {
				continue
			}
			id, _ := shownPermit(h.Owner)
			if stem, number, ok := cutPermit(id); ok {
				permits, stems[stem] = append(permits, permit{h, stem, number}), true
			}
		}
	}
	if len(permits) == 0 {
		return
	}
	uuids := b.whose(ctx, cluster, stems)
	for _, p := range permits {
		if uuid := uuids[p.stem]; uuid != "" {
			p.hold.Owner = uuid + ":" + p.number
		}
	}
}

// whose returns the UUIDs of the clients that are registered for stems. In a
// cluster each stem is a call of its own.
func (b *Backend) whose(ctx context.Context, cluster bool, stems map[string]bool) map[string]string {
	uuids := make(map[string]string, len(stems))
	var asked, keys []string
	for stem := range stems {
		if uuid, _, fresh := b.holders.get(stem); fresh {
			uuids[stem] = uuid
			continue
		}
		asked, keys = append(asked, stem), append(keys, b.layout.client(stem))
	}
	if len(asked) == 0 {
		return uuids
	}
	calls := paged(b.semaphores.whose, keys, cluster)
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	for i, result := range b.do(ctx, calls...) {
		found, ok := texts(result.Value)
		page := asked[:len(calls[i].Keys)]
		asked = asked[len(page):]
		if ok = ok && result.Err == nil && len(found) == len(page); !ok {
			b.log.Debug("redis: read whose permits are", "error", result.Err)
		}
		if !ok {
			continue // nobody knows: that is not "nobody is registered"
		}
		for j, stem := range page {
			if fits(stem, found[j]) {
				uuids[stem] = found[j]
			}
			b.holders.put(stem, uuids[stem])
		}
	}
	return uuids
}

// fits reports that uuid may be registered for stem.
func fits(stem, uuid string) bool { return hasStem(uuid) && stemOf(uuid) == stem }
