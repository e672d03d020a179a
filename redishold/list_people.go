package redishold

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	maxPeople    = 4096        // how many clients are remembered
	strangerLife = time.Second // how long one without a registration is: it may be about to come

	// holdsLife is for how long a client that did not name a hold is not asked again
	// for it.
	holdsLife = 2 * time.Second
)

// people remembers what clients say of themselves, for as long as names does: a
// page of locks is looked at each second.
type people struct {
	mu    sync.Mutex
	known map[string]knownClient // by client uuid
}

type knownClient struct {
	client admin.Client
	holds  map[string]heldSince // by owner, of holds that are some seconds old
	read   time.Time
	ends   time.Time
}

// get returns a client that was asked for lately, and again not long ago if it
// did not name the hold of one of owners.
func (p *people) get(uuid string, owners []string) (knownClient, bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[uuid]
	if !ok || !now.Before(known.ends) {
		return known, false
	}
	for _, owner := range owners {
		if _, named := known.holds[owner]; !named && known.client.Library == "holdfast" {
			return known, now.Before(known.read.Add(holdsLife))
		}
	}
	return known, true
}

// put remembers clients.
func (p *people) put(clients map[string]knownClient) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known)+len(clients) > maxPeople {
		p.known = make(map[string]knownClient, len(clients))
	}
	for uuid, client := range clients {
		life := nameLife
		if client.client.Library != "holdfast" {
			life = strangerLife
		}
		client.read, client.ends = now, now.Add(life)
		p.known[uuid] = client
	}
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
		if client, ok := l.people.get(uuid, s.owners); ok {
			clients[uuid] = client
			continue
		}
		asked, keys = append(asked, uuid), append(keys, l.layout.client(uuid))
	}
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	home := l.registrations(ctx, keys)
	abroad := l.abroad(ctx, about, asked, home)
	fresh := make(map[string]knownClient)
	for _, uuid := range asked {
		own, read := home[l.layout.client(uuid)]
		if !read {
			continue
		}
		if own.text == "" {
			own = abroad[uuid]
		}
		fresh[uuid] = l.parseClient(uuid, own.text, own.now)
		clients[uuid] = fresh[uuid]
	}
	l.people.put(fresh)
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
	for key, there := range l.registrations(ctx, keys) {
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

// paged returns calls that give a script keys, some at a time; in a cluster, where they
// are on different nodes, one.
func paged(script *Script, keys []string, cluster bool) (calls []Call) {
	size := listPage
	if cluster {
		size = 1
	}
	for some := range slices.Chunk(keys, size) {
		calls = append(calls, Call{Script: script, Keys: some})
	}
	return calls
}

// card is a registration as it was read.
type card struct {
	text string // "" if there is none
	now  int64  // when that was, by the clock of the server that has it
}

// registrations reads keys. Those that could not be read are left out.
func (l *lister) registrations(ctx context.Context, keys []string) map[string]card {
	if len(keys) == 0 {
		return nil
	}
	calls := paged(l.scripts.clients, keys, l.info.Cluster)
	read := make(map[string]card)
	for i, result := range l.do(ctx, calls...) {
		l.spent += 1 + len(calls[i].Keys)
		found, ok := texts(result.Value)
		if result.Err != nil || !ok || len(found) != 1+len(calls[i].Keys) {
			l.log.Debug("redis: read who clients are", "error", result.Err)
			continue
		}
		now, _ := strconv.ParseInt(found[0], 10, 64)
		for j, key := range calls[i].Keys {
			read[key] = card{found[1+j], now}
		}
	}
	return read
}

// parseClient reads a registration, when the server's clock stood at now; one that
// is not there is Redisson's, where Redisson can be.
func (l *lister) parseClient(uuid, text string, now int64) knownClient {
	s, ok := parseStatement(text)
	if !ok {
		client := admin.Client{ID: uuid}
		if l.own == nil {
			client.Library = "redisson"
		}
		return knownClient{client: client}
	}
	return knownClient{client: s.client(uuid), holds: s.holdsAt(now)}
}

// client is d for programs.
func (d description) client(uuid string) admin.Client {
	started, _ := time.Parse(time.RFC3339, d.Started)
	return admin.Client{
		ID: uuid, Library: "holdfast",
		Program: printable(d.Program), Host: printable(d.Host), PID: d.PID,
		Note: printable(d.Note), Started: started,
	}
}

// nameOf is who a client of Holdfast is, for people.
func nameOf(c admin.Client) string {
	return description{Note: c.Note, Program: c.Program, Host: c.Host, PID: c.PID}.String()
}

// describe says who owner is, for programs and for people.
func (l *lister) describe(owner string, clients map[string]knownClient) (admin.Client, string) {
	uuid := clientOf(owner)
	known, ok := clients[uuid]
	client := known.client
	switch {
	case !ok:
		return admin.Client{ID: uuid}, printable(owner)
	case client.Library == "holdfast":
		return client, nameOf(client)
	}
	thread := strings.TrimSuffix(owner[len(uuid)+1:], writeField)
	if _, err := strconv.ParseInt(thread, 10, 64); err != nil || client.Library != "redisson" {
		return client, printable(owner)
	}
	return client, "Redisson client " + uuid[:8] + "… thread " + thread
}
