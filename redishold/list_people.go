package redishold

import (
	"context"
	"encoding/json"
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
	owners := map[string]bool{}
	for _, r := range records {
		for _, h := range r.Holds {
			owners[clientOf(h.Owner)] = true
		}
		for _, w := range r.Waiters {
			owners[clientOf(w.Owner)] = true
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

// meet returns what the clients with the given UUIDs say of themselves.
func (l *lister) meet(ctx context.Context, uuids map[string]bool) map[string]driver.Client {
	clients := make(map[string]driver.Client, len(uuids))
	var calls []Call
	var asked [][]string
	for uuid := range uuids {
		if client, ok := l.people.get(uuid); ok {
			clients[uuid] = client
			continue
		}
		last := len(calls) - 1
		if last < 0 || l.info.Cluster || len(asked[last]) == listPage {
			calls, asked = append(calls, Call{Script: l.scripts.clients}), append(asked, nil)
			last++
		}
		calls[last].Keys = append(calls[last].Keys, l.layout.client(uuid))
		asked[last] = append(asked[last], uuid)
	}
	if len(calls) == 0 {
		return clients
	}
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	fresh := make(map[string]driver.Client)
	for i, result := range l.do(ctx, calls...) {
		l.spent += 1 + len(asked[i])
		found, ok := texts(result.Value)
		if result.Err != nil || !ok || len(found) != len(asked[i]) {
			l.log.Debug("redis: read who clients are", "error", result.Err)
			continue
		}
		for j, uuid := range asked[i] {
			fresh[uuid] = l.parseClient(uuid, found[j])
			clients[uuid] = fresh[uuid]
		}
	}
	l.people.put(fresh)
	return clients
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
