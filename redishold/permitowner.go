package redishold

import (
	"context"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// putStem remembers whose a stem is; uuid is "" if nobody is registered for it.
func (b *Backend) putStem(stem, uuid string) {
	known := knownClient{client: admin.Client{ID: uuid}}
	if uuid != "" {
		known.client.Library = "holdfast"
	}
	b.directory.put(stem, known)
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
		if known, _ := b.directory.get(stem); known.fresh(strangerLife) {
			if fits(stem, known.client.ID) {
				uuids[stem] = known.client.ID
			}
			continue
		}
		asked, keys = append(asked, stem), append(keys, b.layout.client(stem))
	}
	read := b.cards(ctx, cluster, keys)
	for i, stem := range asked {
		if registered, ok := read[keys[i]]; ok {
			if fits(stem, registered.text) {
				uuids[stem] = registered.text
			}
			b.putStem(stem, uuids[stem])
		}
	}
	return uuids
}

// fits reports that uuid may be registered for stem.
func fits(stem, uuid string) bool { return hasStem(uuid) && stemOf(uuid) == stem }
