package clients

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

const (
	knownFor   = 10 * time.Second // how long a registration is used before it is read again
	unknownFor = time.Second      // how long a missing registration is not looked for again; the client may register soon
	maxClients = 4096             // maximal number of clients in the directory
	pageSize   = 200              // number of registrations that one call reads

	// newHoldFor is how long a registration is used if it lacks a hold that the reader needs.
	// Such a hold is new, and the client will soon write a registration that has it.
	newHoldFor = 2 * time.Second
)

// directory is a cache of the clients of the store. Without a cache there would be many
// look-ups: a waiter asks for the holder with every try, and the dashboard reads a page of locks
// each second.
type directory struct {
	mu      sync.Mutex
	known   map[string]knownClient // by UUID of the client; an entry by stem has only the ID of the client
	pending map[string]bool        // clients and stems with a look-up in the background

	background background.Group
}

// knownClient is what the directory knows about a client. If the client has a registration,
// client.Library is "holdfast".
type knownClient struct {
	client admin.Client
	holds  map[string]knownHold // by owner; without holds that are newer than a few seconds
	read   time.Time            // when the registration was read
}

func (k knownClient) registered() bool { return k.client.Library == "holdfast" }

// fresh reports whether the registration need not be read again yet. A client without a
// registration is fresh for the duration `unregistered`. A registration is fresh for knownFor,
// or only for newHoldFor if it lacks the hold of one of `owners`.
func (k knownClient) fresh(unregistered time.Duration, owners ...string) bool {
	limit := unregistered
	if k.registered() {
		limit = knownFor
		for _, owner := range owners {
			if _, named := k.holds[owner]; !named {
				limit = newHoldFor
			}
		}
	}
	return time.Since(k.read) < limit
}

func (d *directory) get(id string) (known knownClient, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok = d.known[id]
	return known, ok
}

func (d *directory) put(id string, known knownClient) knownClient {
	known.read = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxClients {
		clear(d.known)
	}
	d.known[id] = known
	return known
}

// inBackground runs `fn` in the background, unless another look-up of the same `id` is running.
// The function `fn` looks up the client or the stem `id`.
func (d *directory) inBackground(id string, fn func(context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[id] {
		return
	}
	d.pending[id] = true
	d.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), InfoTimeout)
		defer cancel()
		fn(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.pending, id)
	})
}

// Drain waits for the look-ups in the background, which take up to a quarter of a second.
func (s *Clients) Drain(ctx context.Context) error { return s.directory.background.Wait(ctx) }

// RegistrationText is a registration as it was read.
type RegistrationText struct {
	Text string // "" if the registration does not exist
	Now  int64  // when the registration was read, by the clock of its server, in ms
}

// readRegistrations reads registrations by their keys. The result leaves out each registration
// that could not be read, because it is unknown whether that registration exists.
func (s *Clients) readRegistrations(ctx context.Context, cluster bool, keys []string) map[string]RegistrationText {
	if len(keys) == 0 {
		return nil
	}
	calls := Paged(s.Script("client"), keys, cluster)
	read := make(map[string]RegistrationText, len(keys))
	for i, result := range s.Do(ctx, calls...) {
		found, ok := wire.Texts(result.Value)
		last := len(calls[i].Keys)
		if result.Err != nil || !ok || len(found) != last+1 {
			s.Log.Debug("redis: read who clients are", "error", result.Err)
			continue
		}
		now, _ := strconv.ParseInt(found[last], 10, 64)
		for j, key := range calls[i].Keys {
			read[key] = RegistrationText{found[j], now}
		}
	}
	return read
}

// Paged returns the calls of a script for many keys: with up to pageSize keys in each call. In
// a cluster each call has one key, because the keys are on different nodes.
func Paged(script *wire.Script, keys []string, cluster bool) (calls []wire.Call) {
	size := pageSize
	if cluster {
		size = 1
	}
	for some := range slices.Chunk(keys, size) {
		calls = append(calls, wire.Call{Script: script, Keys: some})
	}
	return calls
}

// parse returns the client that `read`, a registration, describes. The parameter `id` is the
// UUID of the client, or its stem. The registration of a stem has only the UUID of the client.
// In Redisson's layout, a client without a registration counts as a client of Redisson.
func (s *Clients) parse(id string, read RegistrationText) (known knownClient) {
	if len(id) == layout.StemLength && strings.Trim(id, "0123456789abcdef") == "" {
		if layout.Fits(id, read.Text) {
			known.client = admin.Client{ID: read.Text, Library: "holdfast"}
		}
		return known
	}
	var r registrationJSON
	if read.Text != "" && json.Unmarshal([]byte(read.Text), &r) == nil {
		return knownClient{client: r.Client(id), holds: r.holdsAt(read.Now)}
	}
	known.client.ID = id
	if s.Layout.Name == "" {
		known.client.Library = "redisson"
	}
	return known
}

// lookup has what the caller of lookUp needs of one client.
type lookup struct {
	name   string   // the name of a lock that the client holds or waits for; "" to search only with the key prefix of this Backend
	owners []string // owners of this client whose holds the caller needs
}

// lookUp returns the clients that have the given UUIDs or stems. Clients that could not be
// looked up are not in the result. The result `spent` is the number of commands that lookUp
// sent. In a cluster it makes one call for each registration. It takes at most the time `limit`.
func (s *Clients) lookUp(ctx context.Context, limit time.Duration, cluster bool, wanted map[string]lookup) (clients map[string]knownClient, spent int) {
	clients = make(map[string]knownClient, len(wanted))
	var asked, keys []string
	for id, want := range wanted {
		if known, _ := s.directory.get(id); known.fresh(unknownFor, want.owners...) {
			clients[id] = known
			continue
		}
		asked = append(asked, id)
		keys = append(keys, s.Layout.Registration(id))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	registrations := s.readRegistrations(ctx, cluster, keys)

	// The program of a client may have a longer key prefix than this Backend. Then the names
	// that this Backend reads begin with the rest of that prefix. Where this rest ends is
	// unknown, so lookUp tries the first parts of the name.
	var elsewhere []string
	for i, id := range asked {
		if r, read := registrations[keys[i]]; read && r.Text == "" {
			for _, prefix := range prefixesOf(wanted[id].name) {
				elsewhere = append(elsewhere, s.Layout.Prefix+prefix+"holdfast:client:"+id)
			}
		}
	}
	for key, r := range s.readRegistrations(ctx, cluster, elsewhere) {
		id := key[strings.LastIndexByte(key, ':')+1:]
		if own := s.Layout.Registration(id); r.Text != "" {
			registrations[own] = r
		}
	}
	for i, id := range asked {
		if r, read := registrations[keys[i]]; read {
			clients[id] = s.directory.put(id, s.parse(id, r))
		}
	}
	return clients, 1 + len(keys) + len(elsewhere)
}

// prefixesOf returns up to three beginnings of a name: they end with the first, the second and
// the third separator in it.
func prefixesOf(name string) []string {
	const most = 3
	var list []string
	for i := 0; i+1 < len(name) && len(list) < most; i++ {
		if strings.IndexByte(":/.", name[i]) >= 0 {
			list = append(list, name[:i+1])
		}
	}
	return list
}

// PermitOwner returns the owner of the permit with the given id, or "" if no client is
// registered for it. If the directory has no fresh entry for the client, PermitOwner asks the
// server.
func (s *Clients) PermitOwner(ctx context.Context, id string) string {
	stem, number, ok := layout.CutPermit(id)
	if !ok {
		return ""
	}
	if known, _ := s.lookUpClient(ctx, InfoTimeout, stem); known.client.ID != "" {
		return known.client.ID + ":" + number
	}
	return ""
}
