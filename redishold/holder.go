package redishold

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// person says for people who owner is. It asks the server at most once in a
// while, and a failure costs nothing but the name.
func (b *Backend) person(ctx context.Context, owner string) string {
	uuid, ok := b.clientIn(owner)
	if !ok {
		return printable(owner)
	}
	client, known := b.directory.get(uuid)
	if !client.fresh(nameLife) {
		if read, ok := b.learn(ctx, uuid); ok {
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
func (b *Backend) describe(owner string, client knownClient, known bool) (who string, held time.Duration) {
	owner = strings.TrimSuffix(owner, writeField)
	if hold, ok := client.holds[owner]; ok {
		held = time.Since(hold.since)
	}
	uuid, number, _ := cutOwner(owner)
	_, err := strconv.ParseInt(number, 10, 64)
	name := nameOf(client.client)
	switch {
	case name != "":
		return name, held
	case err != nil || !isUUID(uuid) || b.own != nil:
		return printable(owner), 0
	case !known || client.registered():
		return "client " + uuid[:8] + "…", 0
	default:
		return "Redisson client " + uuid[:8] + "… thread " + number, 0
	}
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
	return cutTo(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s), limit)
}
