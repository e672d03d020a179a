package redishold

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	maxPeople    = 4096        // how many clients are remembered
	strangerLife = time.Second // how long one without a registration is: it may be about to come
)

// people remembers what clients say of themselves, for as long as names does: a
// page of locks is looked at each second.
type people struct {
	mu    sync.Mutex
	known map[string]knownClient // by client uuid
}

type knownClient struct {
	client driver.Client
	ends   time.Time
}

// get returns a client that was asked for lately.
func (p *people) get(uuid string) (driver.Client, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.known[uuid]
	return known.client, ok && time.Now().Before(known.ends)
}

// put remembers clients.
func (p *people) put(clients map[string]driver.Client) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known)+len(clients) > maxPeople {
		p.known = make(map[string]knownClient, len(clients))
	}
	for uuid, client := range clients {
		life := nameLife
		if client.Library != "holdfast" {
			life = strangerLife
		}
		p.known[uuid] = knownClient{client, now.Add(life)}
	}
}

// introduce fills in who the owners in records are. A failure costs nothing but
// the names.
func (l *lister) introduce(ctx context.Context, records []driver.Record) {
	owners := map[string]string{}
	for _, r := range records {
		for _, h := range r.Holds {
			owners[clientOf(h.Owner)] = r.Name
		}
		for _, w := range r.Waiters {
			owners[clientOf(w.Owner)] = r.Name
		}
	}
	delete(owners, "")
	clients := l.meet(ctx, owners)
	for i := range records {
		for j := range records[i].Holds {
			h := &records[i].Holds[j]
			if h.Mode != driver.Permit || clientOf(h.Owner) != "" {
				h.Client, h.Note = l.describe(h.Owner, clients)
			}
		}
		for j := range records[i].Waiters {
			w := &records[i].Waiters[j]
			w.Client, w.Note = l.describe(w.Owner, clients)
		}
	}
}

// meet returns what clients say of themselves, of whose UUIDs each stands with a name
// that it has to do with.
func (l *lister) meet(ctx context.Context, uuids map[string]string) map[string]driver.Client {
	clients := make(map[string]driver.Client, len(uuids))
	var asked, keys []string
	for uuid := range uuids {
		if client, ok := l.people.get(uuid); ok {
			clients[uuid] = client
			continue
		}
		asked, keys = append(asked, uuid), append(keys, l.layout.client(uuid))
	}
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	texts := l.registrations(ctx, keys)
	abroad := l.abroad(ctx, uuids, asked, texts)
	fresh := make(map[string]driver.Client)
	for _, uuid := range asked {
		text, read := texts[l.layout.client(uuid)]
		if !read {
			continue
		}
		fresh[uuid] = l.parseClient(uuid, cmp.Or(text, abroad[uuid]))
		clients[uuid] = fresh[uuid]
	}
	l.people.put(fresh)
	return clients
}

// abroad returns the registrations of those clients whose program has a longer
// prefix than this one, which sees its locks under their whole names. Where that
// prefix ends nobody knows: the beginnings of the name are tried.
func (l *lister) abroad(ctx context.Context, uuids map[string]string, asked []string, home map[string]string) map[string]string {
	var keys []string
	owner := map[string]string{} // by key
	for _, uuid := range asked {
		if text, read := home[l.layout.client(uuid)]; !read || text != "" {
			continue
		}
		for _, begin := range beginnings(uuids[uuid]) {
			key := l.layout.prefix + begin + "holdfast:client:" + uuid
			keys, owner[key] = append(keys, key), uuid
		}
	}
	found := map[string]string{}
	for key, text := range l.registrations(ctx, keys) {
		if text != "" {
			found[owner[key]] = text
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

// registrations reads keys: "" where there is none. Those that could not be read are
// left out.
func (l *lister) registrations(ctx context.Context, keys []string) map[string]string {
	size := listPage
	if l.info.Cluster {
		size = 1
	}
	var calls []Call
	for some := range slices.Chunk(keys, size) {
		calls = append(calls, Call{Script: l.scripts.clients, Keys: some})
	}
	if len(calls) == 0 {
		return nil
	}
	read := make(map[string]string)
	for i, result := range l.do(ctx, calls...) {
		l.spent += 1 + len(calls[i].Keys)
		found, ok := texts(result.Value)
		if result.Err != nil || !ok || len(found) != len(calls[i].Keys) {
			l.log.Debug("redis: read who clients are", "error", result.Err)
			continue
		}
		for j, key := range calls[i].Keys {
			read[key] = found[j]
		}
	}
	return read
}

// parseClient reads a registration; one that is not there is Redisson's, where
// Redisson can be.
func (l *lister) parseClient(uuid, text string) driver.Client {
	var d description
	if text == "" || json.Unmarshal([]byte(text), &d) != nil {
		client := driver.Client{ID: uuid}
		if l.own == nil {
			client.Library = "redisson"
		}
		return client
	}
	started, _ := time.Parse(time.RFC3339, d.Started)
	return driver.Client{
		ID: uuid, Library: "holdfast",
		Program: printable(d.Program), Host: printable(d.Host), PID: d.PID,
		Note: printable(d.Note), Started: started,
	}
}

// describe says who owner is, for programs and for people.
func (l *lister) describe(owner string, clients map[string]driver.Client) (driver.Client, string) {
	uuid := clientOf(owner)
	client, ok := clients[uuid]
	switch {
	case !ok:
		return driver.Client{ID: uuid}, printable(owner)
	case client.Library == "holdfast":
		return client, description{Note: client.Note, Program: client.Program, Host: client.Host, PID: client.PID}.String()
	}
	thread := strings.TrimSuffix(owner[len(uuid)+1:], writeField)
	if _, err := strconv.ParseInt(thread, 10, 64); err != nil || client.Library != "redisson" {
		return client, printable(owner)
	}
	return client, "Redisson client " + uuid[:8] + "… thread " + thread
}
