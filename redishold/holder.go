package redishold

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	nameLife = 10 * time.Second // how long a client's name is believed
	maxNames = 256              // how many are kept
)

// names remembers who clients are, for a short time: a waiter asks for the
// holder with every try.
type names struct {
	mu    sync.Mutex
	known map[string]knownName // by client uuid
}

type knownName struct {
	text  string               // "" if the client is not registered
	holds map[string]heldSince // by owner, as it said last
	ends  time.Time
}

func (n *names) get(uuid string) (known knownName, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok = n.known[uuid]
	return known, ok && time.Now().Before(known.ends)
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
	who, _ := b.holding(ctx, owner)
	return who
}

// holding is person, and for how long owner has been holding, 0 if it has not said.
// What a client has begun to hold since it was asked for last is not known yet.
func (b *Backend) holding(ctx context.Context, owner string) (who string, held time.Duration) {
	owner = strings.TrimSuffix(owner, writeField)
	uuid, number, ok := cutOwner(owner)
	if !ok || b.own != nil && !isUUID(uuid) {
		return printable(owner), 0
	}
	client, known := b.names.get(uuid)
	if !known {
		client = b.readName(ctx, uuid)
		b.names.put(uuid, client)
	}
	if hold, ok := client.holds[owner]; ok {
		held = time.Since(hold.since)
	}
	if client.text != "" {
		return client.text, held
	}
	if _, err := strconv.ParseInt(number, 10, 64); err != nil || !isUUID(uuid) {
		return printable(owner), 0
	}
	if b.own != nil {
		return printable(owner), 0
	}
	return "Redisson client " + uuid[:8] + "… thread " + number, 0
}

// readName reads a client's registration; it has no text if there is none.
func (b *Backend) readName(ctx context.Context, uuid string) (known knownName) {
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	value, err := b.call(ctx, Call{Script: b.scripts.client, Keys: []string{b.layout.client(uuid)}})
	if err != nil {
		b.log.Debug("redis: read who a client is", "client", uuid, "error", err)
		return known
	}
	texts, ok := texts(value)
	if !ok || len(texts) != 2 {
		return known
	}
	s, ok := parseStatement(texts[0])
	now, err := strconv.ParseInt(texts[1], 10, 64)
	if !ok || err != nil {
		return known
	}
	return knownName{text: printable(s.String()), holds: s.holdsAt(now)}
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
