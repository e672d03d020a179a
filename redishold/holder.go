package redishold

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/background"
)

const (
	nameLife = 10 * time.Second // how long a client's name is believed without asking again
	maxNames = 256              // how many are kept
	maxTold  = 4096             // how many locks are kept whose holder is known
)

// names remembers who clients are: a waiter asks for the holder with every try.
type names struct {
	mu    sync.Mutex
	known map[string]knownName // by client uuid
	told  map[string]time.Time // by lock: until when it need not be asked who has it
	asked map[string]bool      // clients and stems that somebody asks for in the background

	background background.Group
}

type knownName struct {
	text  string               // "" if the client is not registered
	holds map[string]heldSince // by owner, as it said last
	ends  time.Time
}

// get returns what is known of a client, and whether it was asked for lately.
func (n *names) get(uuid string) (known knownName, ok, fresh bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok = n.known[uuid]
	return known, ok, ok && time.Now().Before(known.ends)
}

func (n *names) put(uuid string, known knownName) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxNames {
		n.drop(now)
	}
	known.ends = now.Add(nameLife)
	n.known[uuid] = known
}

// isTold reports that the holder of lock was known when it was busy last, a short
// while ago.
func (n *names) isTold(lock string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	ends, ok := n.told[lock]
	return ok && time.Now().Before(ends)
}

// tell notes that the holder of lock is known.
func (n *names) tell(lock string) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if ends, ok := n.told[lock]; ok && now.Before(ends) {
		return
	}
	if len(n.told) >= maxTold {
		clear(n.told)
	}
	n.told[strings.Clone(lock)] = now.Add(nameLife)
}

// drop makes room: for all that ended, or else for anyone.
func (n *names) drop(now time.Time) {
	for uuid, known := range n.known {
		if now.After(known.ends) {
			delete(n.known, uuid)
		}
	}
	for uuid := range n.known {
		if len(n.known) < maxNames {
			return
		}
		delete(n.known, uuid)
	}
}

// person says for people who owner is. It asks the server at most once in a
// while, and a failure costs nothing but the name.
func (b *Backend) person(ctx context.Context, owner string) string {
	uuid, ok := b.clientIn(owner)
	if !ok {
		return printable(owner)
	}
	client, known, fresh := b.names.get(uuid)
	if !fresh {
		if read, ok := b.readName(ctx, uuid); ok {
			b.names.put(uuid, read)
			client, known = read, true
		}
	}
	who, _ := b.describe(owner, client, known)
	return who
}

// clientIn returns the client in owner, if it can be one of Holdfast's or
// Redisson's.
func (b *Backend) clientIn(owner string) (uuid string, ok bool) {
	uuid, _, ok = cutOwner(strings.TrimSuffix(owner, writeField))
	return uuid, ok && (b.own == nil || isUUID(uuid))
}

// describe says for people who owner is, and for how long it has been holding, 0 if
// it has not said. What a client has begun to hold since it was asked for last is not
// known yet. Of a client that is not known either no more is said than which it is.
func (b *Backend) describe(owner string, client knownName, known bool) (who string, held time.Duration) {
	owner = strings.TrimSuffix(owner, writeField)
	if hold, ok := client.holds[owner]; ok {
		held = time.Since(hold.since)
	}
	uuid, number, _ := cutOwner(owner)
	_, err := strconv.ParseInt(number, 10, 64)
	switch {
	case client.text != "":
		return client.text, held
	case err != nil || !isUUID(uuid) || b.own != nil:
		return printable(owner), 0
	case !known:
		return "client " + uuid[:8] + "…", 0
	default:
		return "Redisson client " + uuid[:8] + "… thread " + number, 0
	}
}

// readName reads a client's registration; it has no text if there is none. It fails
// where nobody knows: that is no answer, and must not be remembered as one.
func (b *Backend) readName(ctx context.Context, uuid string) (known knownName, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	value, err := b.call(ctx, Call{Script: b.scripts.client, Keys: []string{b.layout.client(uuid)}})
	texts, ok := texts(value)
	if err != nil || !ok || len(texts) != 2 {
		b.log.Debug("redis: read who a client is", "client", uuid, "error", err)
		return known, false
	}
	now, err := strconv.ParseInt(texts[1], 10, 64)
	return parseName(texts[0], now), err == nil
}

// parseName reads a registration, when the server's clock stood at now.
func parseName(text string, now int64) (known knownName) {
	if s, ok := parseStatement(text); ok {
		known = knownName{text: printable(s.String()), holds: s.holdsAt(now)}
	}
	return known
}

// isUUID reports that s looks like 71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(s[i])) {
			return false
		}
	}
	return true
}

// printable cuts what another program wrote down to what a terminal can show.
func printable(s string) string {
	const limit = 200
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
