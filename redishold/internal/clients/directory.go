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
	knownFor   = 10 * time.Second // how long what a client says of itself is believed without asking again
	unknownFor = time.Second      // how long a list assumes that there is no registration: it may be about to come
	maxClients = 4096             // how many are kept, and locks whose holder is known
	pageSize   = 200              // registrations that one call reads

	// holdsLife is for how long a client that did not name a hold is not asked again
	// for it.
	newHoldFor = 2 * time.Second
)

// directory remembers who clients are, and which of them permits belong to. A waiter
// asks for the holder with every try, and a page of locks is looked at each second.
type directory struct {
	mu               sync.Mutex
	known            map[string]knownClient // by client uuid; by stem for its ID alone
	holderKnownUntil map[string]time.Time   // by lock: until when it need not be asked who has it
	pending          map[string]bool        // clients and stems that somebody asks for in the background

	background background.Group
}

// knownClient is what a client said of itself. Its Library is "holdfast" if it is
// registered.
type knownClient struct {
	client admin.Client
	holds  map[string]knownHold // by owner, of holds that are some seconds old
	read   time.Time
}

func (k knownClient) registered() bool { return k.client.Library == "holdfast" }

// fresh reports that the client was asked for lately: stranger is for how long that
// counts where there was no registration. One that did not name the hold of one of
// owners is asked again soon.
func (k knownClient) fresh(stranger time.Duration, owners ...string) bool {
	life := stranger
	if k.registered() {
		life = knownFor
		for _, owner := range owners {
			if _, named := k.holds[owner]; !named {
				life = newHoldFor
			}
		}
	}
	return time.Since(k.read) < life
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

// HolderKnown reports that the holder of lock was known when it was busy last, a short
// while ago.
func (s *Clients) HolderKnown(lock string) bool {
	s.directory.mu.Lock()
	defer s.directory.mu.Unlock()
	return time.Now().Before(s.directory.holderKnownUntil[lock])
}

func (d *directory) rememberHolder(lock string) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.holderKnownUntil[lock]) {
		return
	}
	if len(d.holderKnownUntil) >= maxClients {
		clear(d.holderKnownUntil)
	}
	d.holderKnownUntil[strings.Clone(lock)] = now.Add(knownFor)
}

// inBackground runs fn, which asks for id, unless that is under way.
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

// Drain waits for what goes on in the background: who holders are is asked for up to
// a quarter of a second.
func (s *Clients) Drain(ctx context.Context) error { return s.directory.background.Wait(ctx) }

// Card is a registration as it was read.
type RegistrationText struct {
	Text string // "" if there is none
	Now  int64  // when that was, by the clock of the server that has it
}

// cards reads registrations. Those that could not be read are left out: nobody knows,
// which is not "there is none".
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

// Paged returns calls that give a script keys, some at a time; in a cluster, where they
// are on different nodes, one.
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

// parse reads the registration under an id. A client without one is Redisson's, where
// Redisson can be; a stem has the UUID of its client.
func (s *Clients) parse(id string, read RegistrationText) (known knownClient) {
	if len(id) == layout.StemLength && strings.Trim(id, "0123456789abcdef") == "" {
		if layout.Fits(id, read.Text) {
			known.client = admin.Client{ID: read.Text, Library: "holdfast"}
		}
		return known
	}
	var registered registrationJSON
	if read.Text != "" && json.Unmarshal([]byte(read.Text), &registered) == nil {
		return knownClient{client: registered.Client(id), holds: registered.holdsAt(read.Now)}
	}
	known.client.ID = id
	if s.Layout.Name == "" {
		known.client.Library = "redisson"
	}
	return known
}

// subject is what a client has to do with, that is looked up.
type lookup struct {
	name   string   // of a lock; "" for a stem, and for who needs no more than the client's own registration
	owners []string // of its holds
}

// lookUp returns what clients and stems say of themselves, as far as it is known, and
// how many commands that took. In a cluster each is a call of its own.
func (s *Clients) lookUp(ctx context.Context, cluster bool, about map[string]lookup) (clients map[string]knownClient, spent int) {
	clients = make(map[string]knownClient, len(about))
	var asked, keys []string
	for id, subject := range about {
		if known, _ := s.directory.get(id); known.fresh(unknownFor, subject.owners...) {
			clients[id] = known
			continue
		}
		asked, keys = append(asked, id), append(keys, s.Layout.Registration(id))
	}
	ctx, cancel := context.WithTimeout(ctx, InfoTimeout)
	defer cancel()
	home := s.readRegistrations(ctx, cluster, keys)

	// The program of a client may have a longer prefix than this one, which sees its locks
	// under their whole names. Where that prefix ends nobody knows: the beginnings of the
	// name are tried.
	var elsewhere []string
	for i, id := range asked {
		if own, read := home[keys[i]]; read && own.Text == "" {
			for _, begin := range prefixesOf(about[id].name) {
				elsewhere = append(elsewhere, s.Layout.Prefix+begin+"holdfast:client:"+id)
			}
		}
	}
	for key, there := range s.readRegistrations(ctx, cluster, elsewhere) {
		id := key[strings.LastIndexByte(key, ':')+1:]
		if own := s.Layout.Registration(id); there.Text != "" {
			home[own] = there
		}
	}
	for i, id := range asked {
		if own, read := home[keys[i]]; read {
			clients[id] = s.directory.put(id, s.parse(id, own))
		}
	}
	return clients, 1 + len(keys) + len(elsewhere)
}

// beginnings returns what a name begins with up to each of its first separators.
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

// PermitOwner returns whose permit id is, "" if nobody is registered for it. It
// asks the server at most once in a while.
func (s *Clients) PermitOwner(ctx context.Context, id string) string {
	stem, number, ok := layout.CutPermit(id)
	if !ok {
		return ""
	}
	if known, _ := s.lookUpClient(ctx, stem); known.client.ID != "" {
		return known.client.ID + ":" + number
	}
	return ""
}
