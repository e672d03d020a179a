package serve

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	mostCost = 14 // the highest cost of a hash; a login with it takes a second

	provedFor = 5 * time.Minute // how long a proof is valid after its last use
	mostProof = 1000

	guessEvery  = time.Second // each address may send one wrong password in this time
	guessBurst  = 10          // and this many at once, after a time without wrong passwords
	mostGuesser = 10000       // the most addresses in failures.until
	logEvery    = 10 * time.Second
)

// login returns the user and the status 200 if the secret was right a short while ago, or if
// the function `check` accepts it. For other secrets it returns the status 401. If too many
// wrong passwords came from the address, it returns the status 429 without a call of `check`.
// A user with a recent proof can log in even then.
func (g *Authenticator) login(r *http.Request, name, secret string, check func() (user string, ok bool)) (user string, status int) {
	if user, ok := g.proved.of(name, secret); ok {
		return user, http.StatusOK
	}
	peer := peerOf(r.RemoteAddr)
	if !g.failed.take(peer) {
		g.logFailure(r, name)
		return "", http.StatusTooManyRequests
	}
	user, ok := check()
	if !ok {
		g.logFailure(r, name)
		return "", http.StatusUnauthorized
	}
	g.failed.putBack(peer)
	g.proved.add(name, secret, user)
	return user, http.StatusOK
}

// right reports whether the password of a user is right. The call takes the same time for every
// name: as long as the most expensive hash needs.
func (g *Authenticator) right(ctx context.Context, name, password string) bool {
	select {
	case g.turns <- struct{}{}:
		defer func() { <-g.turns }()
	case <-ctx.Done():
		return false
	}
	hash, known := g.users[name]
	if !known {
		hash = decoy(g.cost)
	}
	ok := g.compare(hash, []byte(password)) == nil
	// Each step of the cost doubles the time. All calls together take as long as one call with
	// g.cost.
	for cost, _ := bcrypt.Cost(hash); cost < g.cost; cost++ {
		_ = g.compare(decoy(cost), []byte(password))
	}
	return ok && known
}

// decoy returns a hash with the given cost. It is the hash of no password.
func decoy(cost int) []byte { return fmt.Appendf(nil, "$2y$%02d$%s", cost, strings.Repeat("a", 53)) }

// logFailure logs a failed login, but not more often than once in logEvery. It does not log a
// name that no user has: it may be a password in the wrong field.
func (g *Authenticator) logFailure(r *http.Request, name string) {
	g.failed.mu.Lock()
	before, due := g.failed.more, time.Since(g.failed.logged) >= logEvery
	if g.failed.more++; due {
		g.failed.more, g.failed.logged = 0, time.Now()
	}
	g.failed.mu.Unlock()
	if !due {
		return
	}
	if g.users[name] == nil && g.tokens[name] == [32]byte{} {
		name = "(unknown)"
	}
	g.log.WarnContext(r.Context(), "login failed", "user", name, "address", hostOf(r.RemoteAddr), "not_logged_before", before)
}

// proofs are secrets that were right a short while ago, as digests with a salt of this
// process. To check them again with bcrypt would take too long.
type proofs struct {
	mu   sync.Mutex
	salt [32]byte
	list map[[32]byte]proof
}

type proof struct {
	user  string
	until time.Time
}

func (p *proofs) digest(name, secret string) [32]byte {
	return sha256.Sum256(fmt.Appendf(p.salt[:len(p.salt):len(p.salt)], "%d:%s%s", len(name), name, secret))
}

// of returns the user of a secret that was right a short while ago.
func (p *proofs) of(name, secret string) (user string, ok bool) {
	key := p.digest(name, secret)
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.list[key]
	if !ok || time.Now().After(found.until) {
		return "", false
	}
	found.until = time.Now().Add(provedFor)
	p.list[key] = found
	return found.user, true
}

func (p *proofs) add(name, secret, user string) {
	key := p.digest(name, secret)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) >= mostProof {
		clear(p.list)
	}
	p.list[key] = proof{user, time.Now().Add(provedFor)}
}

// failures counts the wrong passwords of each address. Each wrong password moves the time in
// `until` by guessEvery into the future. The farther that time is in the future, the fewer
// passwords may the address send now.
type failures struct {
	mu     sync.Mutex
	until  map[netip.Addr]time.Time
	logged time.Time // when the last failed login was logged
	more   int       // how many failed logins were not logged since then
}

// take reports whether the address `peer` may send a password now. If so, take counts the
// password as wrong. If the password is right, the caller then calls putBack.
func (f *failures) take(peer netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	until := f.until[peer]
	if until.Before(now) {
		until = now
	}
	if until.Sub(now) > (guessBurst-1)*guessEvery {
		return false
	}
	if len(f.until) >= mostGuesser { // forget the addresses that need not wait any more; if that is not enough, forget all
		maps.DeleteFunc(f.until, func(_ netip.Addr, until time.Time) bool { return until.Before(now) })
	}
	if len(f.until) >= mostGuesser {
		clear(f.until)
	}
	f.until[peer] = until.Add(guessEvery)
	return true
}

// putBack undoes a call of take, because the password was right.
func (f *failures) putBack(peer netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until[peer] = f.until[peer].Add(-guessEvery)
}
