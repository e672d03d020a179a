package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/dash"
)

const minToken = 16 // the fewest characters of a token

// Authenticator identifies users, and says who may read the pages and who may end holds.
type Authenticator struct {
	*Options
	users   map[string][]byte   // by name: the bcrypt hash of the password
	tokens  map[string][32]byte // by name: the digest of the token
	trusted []netip.Prefix

	onlyHosts bool     // accept only requests whose host is this machine or is in hosts
	hosts     []string // the names in --host, in lower case

	compare func(hash, password []byte) error // bcrypt.CompareHashAndPassword
	cost    int                               // the cost of the most expensive hash in users
	turns   chan struct{}                     // limits how many calls of compare run at once: bcrypt is slow on purpose
	proved  proofs
	failed  failures
	log     *slog.Logger // for actions of users
}

// userKey is the key of the user in the context of a request.
type userKey struct{}

// NewAuthenticator returns an Authenticator with the settings of o. It reads the files of
// users and tokens, and reports to `report` if it has to wait for them.
func NewAuthenticator(o *Options, log *slog.Logger, report *output.Reporter) (*Authenticator, error) {
	g := &Authenticator{
		Options: o, compare: bcrypt.CompareHashAndPassword, turns: make(chan struct{}, 2), log: log,
		proved: proofs{list: map[[32]byte]proof{}}, failed: newFailures(),
	}
	_, _ = rand.Read(g.proved.salt[:]) // never fails, as of Go 1.24
	for _, host := range o.Hosts {
		g.hosts = append(g.hosts, hostOf(host))
	}
	var err error
	if o.BasicFile != "" {
		if g.users, err = readSecrets(o.BasicFile, report, userOf); err != nil {
			return nil, output.UsageError("--basic-file: %w", err)
		}
		for _, hash := range g.users {
			cost, _ := bcrypt.Cost(hash) // never fails: userOf has checked the hash
			g.cost = max(g.cost, cost)
		}
	}
	if o.TokenFile != "" {
		if g.tokens, err = readSecrets(o.TokenFile, report, tokenOf); err != nil {
			return nil, output.UsageError("--token-file: %w", err)
		}
	}
	switch {
	case o.Header != "" && len(o.Trusted) == 0:
		return nil, output.UsageError("give --auth-header and --trusted together: without --trusted, anybody could send the header")
	case o.Header == "" && len(o.Trusted) > 0 && g.Open():
		return nil, output.UsageError("--trusted needs --auth-header, --basic-file or --token-file: without users there is nothing to trust a proxy with")
	}
	for _, text := range o.Trusted {
		text = strings.TrimSpace(text)
		prefix, err := netip.ParsePrefix(text)
		if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
			prefix, err = ip.Prefix(ip.BitLen())
		}
		if err != nil {
			return nil, output.UsageError("--trusted %q is not an address such as 10.0.0.1 or 10.0.0.0/8", text)
		}
		g.trusted = append(g.trusted, prefix)
	}
	g.onlyHosts = g.Open() && o.Private || g.Header != "" || len(g.hosts) > 0
	return g, nil
}

// Open reports whether users are not authenticated at all.
func (g *Authenticator) Open() bool { return g.users == nil && g.tokens == nil && g.Header == "" }

// guard returns a handler that calls `next` for users that may read the pages. For other
// users it closes the connection after the answer, so that a stranger needs a connection for
// each request.
func (g *Authenticator) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.accepts(r.Host) {
			w.Header().Set("Connection", "close")
			http.Error(w, "This server does not know this name: use the address of the server, or start the server with --host and the name.", http.StatusForbidden)
			return
		}
		if g.Open() {
			next.ServeHTTP(w, r)
			return
		}
		user, status := g.identify(r)
		if status == http.StatusOK {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
			return
		}
		w.Header().Set("Connection", "close")
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "10")
			http.Error(w, "Too many wrong passwords came for this user, or from your address: wait ten seconds.", status)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="holdfast", charset="UTF-8"`)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, g.unknown(), status)
	})
}

// unknown returns the message for a user who is not authenticated: what the user can do.
func (g *Authenticator) unknown() string {
	if g.users == nil && g.tokens == nil {
		return "Users sign in at a proxy: open the address of the proxy, and sign in there."
	}
	return "The user name or the password is missing or wrong.\n\n" +
		"Load this page again, and type the user name and the password that the operator of this dashboard has given you.\n" +
		"If there is a token for you, it is the password. A program sends it in the header \"Authorization: Bearer TOKEN\"."
}

// accepts reports whether a request may name this server `host`. Without onlyHosts, every
// name is accepted. With onlyHosts, these are accepted: localhost, a loopback address, and
// the names in --host. Another site can give its own name the address of this machine, but
// its name is none of these. If users are authenticated, accepts also accepts every IP
// address, because no site has an IP address as its name.
func (g *Authenticator) accepts(host string) bool {
	host = hostOf(host)
	if !g.onlyHosts || host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(g.hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || !g.Open())
}

// hostOf returns the host of "host:port" in a form for comparisons.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// identify returns the user of r, and the status of the answer: 200, 401, or 429 after too many
// wrong passwords.
func (g *Authenticator) identify(r *http.Request) (user string, status int) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if g.Header != "" && err == nil && g.proxy(peer.Addr().Unmap()) {
		if names := r.Header.Values(g.Header); len(names) == 1 && names[0] != "" {
			return names[0], http.StatusOK
		}
	}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	name, password, basic := r.BasicAuth()
	switch {
	case bearer:
		return g.login(r, "", token, func() (string, bool) { return g.bearer(token) })
	case basic:
		return g.login(r, name, password, func() (string, bool) {
			if digest, known := g.tokens[name]; known && same(digest, password) {
				return name, true
			}
			return name, g.users != nil && g.right(r.Context(), name, password)
		})
	}
	return "", http.StatusUnauthorized
}

// proxy reports whether ip is the address of a trusted proxy.
func (g *Authenticator) proxy(ip netip.Addr) bool {
	return slices.ContainsFunc(g.trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// addressOf returns the address of the client that sent r. If r came through trusted proxies, it
// is the last address in X-Forwarded-For that is not the address of such a proxy. Each proxy adds
// the address from which it got the request.
func (g *Authenticator) addressOf(r *http.Request) string {
	from := hostOf(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		ip, err := netip.ParseAddr(from)
		if err != nil || !g.proxy(ip.Unmap()) {
			break
		}
		next, err := netip.ParseAddr(hostOf(strings.TrimSpace(hop)))
		if err != nil {
			break
		}
		from = next.String()
	}
	return from
}

// clientOf returns the address under which the bounds count the client that sent r.
func (g *Authenticator) clientOf(r *http.Request) netip.Addr {
	ip, _ := netip.ParseAddr(g.addressOf(r))
	return counted(ip)
}

// mostConns returns how many connections an address may have.
func (g *Authenticator) mostConns(peer netip.Addr) int {
	if g.proxy(peer) {
		return mostOfProxy
	}
	return mostOfAddress
}

func (g *Authenticator) bearer(token string) (name string, ok bool) {
	for user, digest := range g.tokens { // compares all, so that the time does not show which one is equal
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

// requester returns the user of r, or "" if users are not authenticated.
func requester(r *http.Request) string {
	name, _ := r.Context().Value(userKey{}).(string)
	return name
}

// role returns the role of the user of r. The caller is behind guard, which has accepted r.
func (g *Authenticator) role(r *http.Request) dash.Role {
	if g.Open() || slices.Contains(g.Operators, requester(r)) {
		return dash.Operator
	}
	return dash.Viewer
}

// readSecrets reads a file with a user on each line. The function `read` returns the name and
// the secret of a line. readSecrets ignores empty lines and comments. Its errors do not show
// the line, because the line has a secret.
func readSecrets[T any](file string, report *output.Reporter, read func(line string) (name string, secret T, err error)) (map[string]T, error) {
	text, err := config.ReadFileOrWait(file, report.Waiting)
	if err != nil {
		return nil, err
	}
	secrets := map[string]T{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, secret, err := read(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, number, err)
		}
		secrets[name] = secret
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("the file %s has no users", file)
	}
	return secrets, nil
}

// userOf reads a line of the form name:hash, as htpasswd -B writes it.
func userOf(line string) (name string, hash []byte, err error) {
	name, text, ok := strings.Cut(line, ":")
	if !ok || name == "" {
		return "", nil, errors.New("write name:hash in each line")
	}
	switch cost, err := bcrypt.Cost([]byte(text)); {
	case err != nil:
		return "", nil, errors.New("the password is not hashed with bcrypt; use htpasswd -B")
	case cost > mostCost:
		return "", nil, fmt.Errorf("the hash has cost %d, so each login would take many seconds; use at most %d: htpasswd -B -C 12", cost, mostCost)
	}
	return name, []byte(text), nil
}

// tokenOf reads a line that has a name and a token. It returns the digest of the token.
func tokenOf(line string) (name string, digest [32]byte, err error) {
	words := strings.Fields(line)
	switch {
	case len(words) != 2:
		return "", digest, errors.New("write a name and a token in each line")
	case len(words[1]) < minToken:
		return "", digest, fmt.Errorf("the token is too short; use at least %d characters", minToken)
	}
	return words[0], sha256.Sum256([]byte(words[1])), nil
}

// Loopback reports whether an address can be reached from this machine only.
func Loopback(ctx context.Context, address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	if host == "" {
		return false, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && !slices.ContainsFunc(addresses, func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() }), err
}

// WarnOfHeader warns if every user of this machine can send the header that names the user.
// It also warns if --host is missing.
func (g *Authenticator) WarnOfHeader(report *output.Reporter) {
	if g.Header == "" {
		return
	}
	if g.proxy(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || g.proxy(netip.IPv6Loopback()) {
		report.Warn("--trusted includes this machine: every program and every user on this machine can send the header %s with any name", g.Header)
	}
	if len(g.hosts) == 0 {
		report.Warn("--auth-header without --host: browsers must open this server by its address or as localhost; if they use another name, give it with --host")
	}
}
