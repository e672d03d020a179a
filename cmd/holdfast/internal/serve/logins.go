package serve

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
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

	mostGuesser = 10000 // the most sources in failures.until
	logEvery    = 10 * time.Second
)

// login returns the user and the status 200 if the secret was right a short while ago, or if
// the function `check` accepts it. For other secrets it returns the status 401. If too many
// wrong passwords came for the user or from the address, it returns the status 429 without a
// call of `check`.
// A user with a recent proof can log in even then.
func (g *Authenticator) login(r *http.Request, name, secret string, check func() (user string, ok bool)) (user string, status int) {
	if user, ok := g.proved.of(name, secret); ok {
		return user, http.StatusOK
	}
	sources := g.failed.sources(g.clientOf(r), peerOf(r.RemoteAddr), name)
	if !g.failed.take(sources) {
		g.logFailure(r, name)
		return "", http.StatusTooManyRequests
	}
	user, ok := check()
	if !ok {
		g.logFailure(r, name)
		return "", http.StatusUnauthorized
	}
	g.failed.putBack(sources)
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
	g.log.WarnContext(r.Context(), "login failed", "user", name, "address", g.addressOf(r), "not_logged_before", before)
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

// bound limits how often something may happen.
type bound struct {
	every time.Duration // once in this time
	burst time.Duration // and burst/every times at once, after a time without
}

// The bounds of wrong passwords. A stranger who sends them for one user keeps out only this user,
// also where all users have one address, that of a proxy. The bound of an address limits the
// work, and guesses for many users.
func ofUser() bound    { return bound{time.Second, 10 * time.Second} }
func ofAddress() bound { return bound{time.Second / 5, 10 * time.Second} }
func ofProxy() bound   { return bound{time.Second / 50, 10 * time.Second} }

// source is where wrong passwords come from.
type source struct {
	addr netip.Addr
	user uint64 // the hash of the name of the user; 0 for all users
	bound
}

// failures counts wrong passwords. Each wrong password moves the times of its sources into the
// future by bound.every. The farther such a time is in the future, the fewer passwords may the
// source send now.
type failures struct {
	mu     sync.Mutex
	seed   maphash.Seed
	until  map[source]time.Time
	logged time.Time // when the last failed login was logged
	more   int       // how many failed logins were not logged since then
}

func newFailures() failures {
	return failures{seed: maphash.MakeSeed(), until: map[source]time.Time{}}
}

// sources returns the sources of a password that the client sends for a user. The parameter
// `peer` is the address of the connection: that of the client, or of its proxy.
func (f *failures) sources(client, peer netip.Addr, name string) []source {
	list := []source{{client, maphash.String(f.seed, name), ofUser()}, {client, 0, ofAddress()}}
	if peer != client {
		list = append(list, source{peer, 0, ofProxy()})
	}
	return list
}

// take reports whether all sources may send a password now. If so, take counts the password as
// wrong. If the password is right, the caller then calls putBack.
func (f *failures) take(sources []source) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, s := range sources {
		if f.until[s].Sub(now) > s.burst-s.every {
			return false
		}
	}
	if len(f.until)+len(sources) > mostGuesser { // forget the sources that need not wait any more; if that is not enough, forget all
		maps.DeleteFunc(f.until, func(_ source, until time.Time) bool { return until.Before(now) })
	}
	if len(f.until)+len(sources) > mostGuesser {
		clear(f.until)
	}
	for _, s := range sources {
		until := f.until[s]
		if until.Before(now) {
			until = now
		}
		f.until[s] = until.Add(s.every)
	}
	return true
}

// putBack undoes a call of take, because the password was right.
func (f *failures) putBack(sources []source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range sources {
		f.until[s] = f.until[s].Add(-s.every)
	}
}
