package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/holdfast-go/holdfast/dash"
)

const (
	minToken  = 16 // characters
	provedFor = 5 * time.Minute
	mostProof = 1000
)

// authenticator says who may look, and who may more.
type authenticator struct {
	users     map[string][]byte   // by name: the bcrypt hash of the password
	tokens    map[string][32]byte // by name: the digest of the token
	header    string
	trusted   []netip.Prefix
	operators []string
	hosts     bool // nobody is asked who he is: only names of this machine are answered

	decoy  []byte        // the hash that is compared for users who do not exist
	turns  chan struct{} // bcrypt is slow on purpose: so many at once
	mu     sync.Mutex
	proved map[[32]byte]time.Time // passwords that were right, and until when that is believed
	salt   [32]byte
}

// userKey is where a request's context has its user.
type userKey struct{}

// authenticator reads the files that say who may look.
func (o *serveOptions) authenticator() (*authenticator, error) {
	g := &authenticator{header: o.header, operators: o.operators, turns: make(chan struct{}, 2), proved: map[[32]byte]time.Time{}}
	_, _ = rand.Read(g.salt[:]) // never fails, as of Go 1.24
	var err error
	if o.basicFile != "" {
		if g.users, err = readUsers(o.basicFile); err != nil {
			return nil, usageError("--basic-file: %w", err)
		}
		if g.decoy, err = bcrypt.GenerateFromPassword(g.salt[:], bcrypt.DefaultCost); err != nil {
			return nil, err
		}
	}
	if o.tokenFile != "" {
		if g.tokens, err = readTokens(o.tokenFile); err != nil {
			return nil, usageError("--token-file: %w", err)
		}
	}
	if (o.header == "") != (len(o.trusted) == 0) {
		return nil, usageError("--auth-header and --trusted belong together: anybody can send a header")
	}
	for _, text := range o.trusted {
		text = strings.TrimSpace(text)
		prefix, err := netip.ParsePrefix(text)
		if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
			prefix, err = ip.Prefix(ip.BitLen())
		}
		if err != nil {
			return nil, usageError("--trusted %q is no address, as 10.0.0.1 or 10.0.0.0/8", text)
		}
		g.trusted = append(g.trusted, prefix)
	}
	return g, nil
}

// open reports that nobody is asked who he is.
func (g *authenticator) open() bool { return g.users == nil && g.tokens == nil && g.header == "" }

// guard lets those through to next who may look.
func (g *authenticator) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.open() {
			if g.hosts && !ownHost(r.Host) {
				http.Error(w, "Nobody is asked for a password here, so only this machine is answered: use http://localhost.", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		user, ok := g.identify(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="holdfast", charset="UTF-8"`)
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, g.unknown(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

// unknown says what to do to somebody who is not known.
func (g *authenticator) unknown() string {
	if g.users == nil && g.tokens == nil {
		return "Only a proxy names users here: open the address of the proxy, and sign in there."
	}
	return "The user name or the password is missing or wrong.\n\n" +
		"Load this page again, and type the user name and the password that you got from whoever runs this dashboard.\n" +
		"If there is a token for you, it is the password. A program sends it in the header \"Authorization: Bearer TOKEN\"."
}

// ownHost reports that a request names this machine. A site elsewhere can have its
// name lead here, but not that one.
func ownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// identify returns who made r.
func (g *authenticator) identify(r *http.Request) (string, bool) {
	if g.header != "" && g.trusts(r.RemoteAddr) {
		if names := r.Header.Values(g.header); len(names) == 1 && names[0] != "" {
			return names[0], true
		}
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.bearer(token)
	}
	user, password, ok := r.BasicAuth()
	if !ok {
		return "", false
	}
	if digest, known := g.tokens[user]; known && same(digest, password) {
		return user, true
	}
	return user, g.users != nil && g.right(r.Context(), user, password)
}

func (g *authenticator) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(g.trusted, func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) })
}

func (g *authenticator) bearer(token string) (name string, ok bool) {
	for user, digest := range g.tokens { // all of them, however early one fits
		if same(digest, token) {
			name, ok = user, true
		}
	}
	return name, ok
}

func same(digest [32]byte, token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], digest[:]) == 1
}

// right reports that the password of user is right. That takes time on purpose, so
// it is remembered for a while, as a digest with a salt of this process.
func (g *authenticator) right(ctx context.Context, user, password string) bool {
	proof := sha256.Sum256(fmt.Appendf(g.salt[:len(g.salt):len(g.salt)], "%d:%s%s", len(user), user, password))
	g.mu.Lock()
	until, ok := g.proved[proof]
	g.mu.Unlock()
	if ok && time.Now().Before(until) {
		return true
	}
	hash, known := g.users[user]
	if !known {
		hash = g.decoy
	}
	select {
	case g.turns <- struct{}{}:
		defer func() { <-g.turns }()
	case <-ctx.Done():
		return false
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !known {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.proved) >= mostProof {
		clear(g.proved)
	}
	g.proved[proof] = time.Now().Add(provedFor)
	return true
}

// requester returns who made r, "" if nobody asked.
func requester(r *http.Request) string {
	name, _ := r.Context().Value(userKey{}).(string)
	return name
}

// role says what somebody may who came through the authenticator.
func (g *authenticator) role(r *http.Request) dash.Role {
	if g.open() || slices.Contains(g.operators, requester(r)) {
		return dash.Operator
	}
	return dash.Viewer
}

// readUsers reads lines of name:hash, as htpasswd -B writes them.
func readUsers(file string) (map[string][]byte, error) {
	users := map[string][]byte{}
	err := readLines(file, func(line string) error {
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return errors.New("want name:hash")
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return errors.New("the password is not hashed with bcrypt; htpasswd -B does that")
		}
		users[name] = []byte(hash)
		return nil
	})
	if err == nil && len(users) == 0 {
		err = fmt.Errorf("there is nobody in %s", file)
	}
	return users, err
}

// readTokens reads lines of a name and a token.
func readTokens(file string) (map[string][32]byte, error) {
	tokens := map[string][32]byte{}
	err := readLines(file, func(line string) error {
		words := strings.Fields(line)
		switch {
		case len(words) != 2:
			return errors.New("want a name and a token")
		case len(words[1]) < minToken:
			return fmt.Errorf("the token is short; use %d characters at least", minToken)
		}
		tokens[words[0]] = sha256.Sum256([]byte(words[1]))
		return nil
	})
	if err == nil && len(tokens) == 0 {
		err = fmt.Errorf("there is no token in %s", file)
	}
	return tokens, err
}

// readLines reads the lines of a file that are neither empty nor comments. Errors
// do not show the line: there are secrets in it.
func readLines(name string, read func(line string) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := read(line); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, number, err)
		}
	}
	return lines.Err()
}
