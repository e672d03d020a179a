package redishold

import (
	"context"
	"encoding/json"
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
	text string // "" if the client is not registered
	ends time.Time
}

func (n *names) get(uuid string) (text string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.known[uuid]
	return known.text, ok && time.Now().Before(known.ends)
}

func (n *names) put(uuid, text string) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxNames {
		n.drop(now)
	}
	n.known[uuid] = knownName{text, now.Add(nameLife)}
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
	owner = strings.TrimSuffix(owner, writeField)
	uuid, number, ok := cutOwner(owner)
	if !ok || b.own != nil && !isUUID(uuid) {
		return printable(owner)
	}
	text, known := b.names.get(uuid)
	if !known {
		text = b.readName(ctx, uuid)
		b.names.put(uuid, text)
	}
	if text != "" {
		return text
	}
	if _, err := strconv.ParseInt(number, 10, 64); err != nil || !isUUID(uuid) {
		return printable(owner)
	}
	if b.own != nil {
		return printable(owner)
	}
	return "Redisson client " + uuid[:8] + "… thread " + number
}

// readName reads a client's registration; "" if there is none.
func (b *Backend) readName(ctx context.Context, uuid string) string {
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	value, err := b.call(ctx, Call{Script: b.scripts.client, Keys: []string{b.layout.client(uuid)}})
	if err != nil {
		b.log.Debug("redis: read who a client is", "client", uuid, "error", err)
		return ""
	}
	text, _ := value.(string)
	var d description
	if text == "" || json.Unmarshal([]byte(text), &d) != nil {
		return ""
	}
	return printable(d.String())
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
