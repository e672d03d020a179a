package redishold

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// recent returns what is known of a client that was asked for lately, and again not
// long ago if it did not name the hold of one of owners.
func (d *directory) recent(uuid string, owners []string) (knownClient, bool) {
	known, _ := d.get(uuid)
	if !known.fresh(strangerLife) {
		return known, false
	}
	for _, owner := range owners {
		if _, named := known.holds[owner]; !named && known.registered() {
			return known, time.Since(known.read) < holdsLife
		}
	}
	return known, true
}

// introduce fills in who the owners in records are. A failure costs nothing but
// the names.
func (l *lister) introduce(ctx context.Context, records []admin.Record) {
	l.identify(ctx, l.info.Cluster, records)
	asked := map[string]subject{}
	for _, r := range records {
		for _, h := range r.Holds {
			asked[clientOf(h.Owner)] = asked[clientOf(h.Owner)].with(r.Name, ownerOf(h))
		}
		for _, w := range r.Waiters {
			asked[clientOf(w.Owner)] = asked[clientOf(w.Owner)].with(r.Name)
		}
	}
	delete(asked, "")
	clients := l.meet(ctx, asked)
	for i := range records {
		for j := range records[i].Holds {
			h := &records[i].Holds[j]
			if h.Mode != driver.Permit || clientOf(h.Owner) != "" {
				h.Client, h.Note = l.describe(h.Owner, clients)
				if said, ok := clients[h.Client.ID].holds[ownerOf(*h)]; ok {
					h.Token, h.HeldFor = said.token, max(time.Since(said.since), time.Millisecond)
				}
			}
		}
		for j := range records[i].Waiters {
			w := &records[i].Waiters[j]
			w.Client, w.Note = l.describe(w.Owner, clients)
		}
	}
}

// ownerOf returns the owner of h as its client knows it.
func ownerOf(h admin.Hold) string { return strings.TrimSuffix(h.Owner, writeField) }

// subject is a client that is asked about.
type subject struct {
	name   string   // that it has to do with
	owners []string // of its holds
}

func (s subject) with(name string, owners ...string) subject {
	return subject{name, append(s.owners, owners...)}
}

// meet returns what the clients with the given UUIDs say of themselves; with each
// come the owners of its holds that are asked about.
func (l *lister) meet(ctx context.Context, about map[string]subject) map[string]knownClient {
	clients := make(map[string]knownClient, len(about))
	var asked, keys []string
	for uuid, s := range about {
		if client, ok := l.directory.recent(uuid, s.owners); ok {
			clients[uuid] = client
			continue
		}
		asked, keys = append(asked, uuid), append(keys, l.layout.client(uuid))
	}
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	home := l.cards(ctx, keys)
	abroad := l.abroad(ctx, about, asked, home)
	for _, uuid := range asked {
		own, read := home[l.layout.client(uuid)]
		if !read {
			continue
		}
		if own.text == "" {
			own = abroad[uuid]
		}
		clients[uuid] = l.parseClient(uuid, own)
		l.directory.put(uuid, clients[uuid])
	}
	return clients
}

// abroad returns the registrations of those clients whose program has a longer
// prefix than this one, which sees its locks under their whole names. Where that
// prefix ends nobody knows: the beginnings of the name are tried.
func (l *lister) abroad(ctx context.Context, about map[string]subject, asked []string, home map[string]card) map[string]card {
	var keys []string
	owner := map[string]string{} // by key
	for _, uuid := range asked {
		if own, read := home[l.layout.client(uuid)]; !read || own.text != "" {
			continue
		}
		for _, begin := range beginnings(about[uuid].name) {
			key := l.layout.prefix + begin + "holdfast:client:" + uuid
			keys, owner[key] = append(keys, key), uuid
		}
	}
	found := map[string]card{}
	for key, there := range l.cards(ctx, keys) {
		if there.text != "" {
			found[owner[key]] = there
		}
	}
	return found
}

// beginnings returns what a name begins with up to each of its first separators.
func beginnings(name string) []string {
	const most = 3
	var list []string
	for i := 0; i+1 < len(name) && len(list) < most; i++ {
		if strings.IndexByte(":/.", name[i]) >= 0 {
			list = append(list, name[:i+1])
		}
	}
	return list
}

// cards is that of Backend, and counts what it costs.
func (l *lister) cards(ctx context.Context, keys []string) map[string]card {
	l.spent += 1 + len(keys)
	return l.Backend.cards(ctx, l.info.Cluster, keys)
}

// describe says who owner is, for programs and for people.
func (l *lister) describe(owner string, clients map[string]knownClient) (admin.Client, string) {
	uuid := clientOf(owner)
	known, ok := clients[uuid]
	if !ok {
		return admin.Client{ID: uuid}, printable(owner)
	}
	who, _ := l.Backend.describe(owner, known, true)
	return known.client, who
}
