package redishold

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/background"
)

const (
	nameLife     = 10 * time.Second // how long what a client says of itself is believed without asking again
	strangerLife = time.Second      // how long a list believes that there is no registration: it may be about to come
	maxClients   = 4096             // how many are kept
	maxTold      = 4096             // how many locks are kept whose holder is known

	// holdsLife is for how long a client that did not name a hold is not asked again
	// for it.
	holdsLife = 2 * time.Second
)

// directory remembers who clients are, and which of them permits belong to. A waiter
// asks for the holder with every try, and a page of locks is looked at each second.
type directory struct {
	mu    sync.Mutex
	known map[string]knownClient // by client uuid; by stem for its ID alone
	told  map[string]time.Time   // by lock: until when it need not be asked who has it
	asked map[string]bool        // clients and stems that somebody asks for in the background

	background background.Group
}

// knownClient is what a client said of itself. Its Library is "holdfast" if it is
// registered.
type knownClient struct {
	client admin.Client
	holds  map[string]heldSince // by owner, of holds that are some seconds old
	read   time.Time
}

// registered reports that there was a registration.
func (k knownClient) registered() bool { return k.client.Library == "holdfast" }

// fresh reports that the client was asked for lately: stranger is for how long that
// counts where there was no registration.
func (k knownClient) fresh(stranger time.Duration) bool {
	if k.registered() {
		stranger = nameLife
	}
	return time.Since(k.read) < stranger
}

// get returns what is known of a client.
func (d *directory) get(uuid string) (known knownClient, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok = d.known[uuid]
	return known, ok
}

// put remembers a client that was read now.
func (d *directory) put(uuid string, known knownClient) {
	known.read = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxClients {
		clear(d.known)
	}
	d.known[uuid] = known
}

// isTold reports that the holder of lock was known when it was busy last, a short
// while ago.
func (d *directory) isTold(lock string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ends, ok := d.told[lock]
	return ok && time.Now().Before(ends)
}

// tell notes that the holder of lock is known.
func (d *directory) tell(lock string) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if ends, ok := d.told[lock]; ok && now.Before(ends) {
		return
	}
	if len(d.told) >= maxTold {
		clear(d.told)
	}
	d.told[strings.Clone(lock)] = now.Add(nameLife)
}

// inBackground runs fn, which asks for who, unless that is under way.
func (d *directory) inBackground(who string, fn func(context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked[who] {
		return
	}
	d.asked[who] = true
	d.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), asideLimit)
		defer cancel()
		fn(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.asked, who)
	})
}

// card is a registration as it was read.
type card struct {
	text string // "" if there is none
	now  int64  // when that was, by the clock of the server that has it
}

// cards reads registrations. Those that could not be read are left out: nobody knows,
// which is not "there is none".
func (b *Backend) cards(ctx context.Context, cluster bool, keys []string) map[string]card {
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	calls := paged(b.scripts.client, keys, cluster)
	read := make(map[string]card, len(keys))
	for i, result := range b.do(ctx, calls...) {
		found, ok := texts(result.Value)
		last := len(calls[i].Keys)
		if result.Err != nil || !ok || len(found) != last+1 {
			b.log.Debug("redis: read who clients are", "error", result.Err)
			continue
		}
		now, _ := strconv.ParseInt(found[last], 10, 64)
		for j, key := range calls[i].Keys {
			read[key] = card{found[j], now}
		}
	}
	return read
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

// learn asks who a client is.
func (b *Backend) learn(ctx context.Context, uuid string) (known knownClient, ok bool) {
	key := b.layout.client(uuid)
	read, ok := b.cards(ctx, false, []string{key})[key]
	if ok {
		known = b.parseClient(uuid, read)
		b.directory.put(uuid, known)
	}
	return known, ok
}

// parseClient reads a registration; a client without one is Redisson's, where
// Redisson can be.
func (b *Backend) parseClient(uuid string, read card) knownClient {
	s, ok := parseStatement(read.text)
	if !ok {
		client := admin.Client{ID: uuid}
		if b.own == nil {
			client.Library = "redisson"
		}
		return knownClient{client: client}
	}
	return knownClient{client: s.client(uuid), holds: s.holdsAt(read.now)}
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

// nameOf is who a client of Holdfast is, for people; "" for another.
func nameOf(c admin.Client) string {
	return printable(description{Note: c.Note, Program: c.Program, Host: c.Host, PID: c.PID}.String())
}
