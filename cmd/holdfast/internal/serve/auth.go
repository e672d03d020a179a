package serve

import (
	"context"
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

const (
	minToken = 16      // characters
	maxLines = 1 << 20 // the most bytes of a file of users or of tokens
)

// Authenticator identifies users, and says who may read the pages and who may end holds.
type Authenticator struct {
	users     map[string][]byte   // by name: the bcrypt hash of the password
	tokens    map[string][32]byte // by name: the digest of the token
	header    string
	trusted   []netip.Prefix
	operators []string

	onlyHosts bool     // a request must name this machine, or one of hosts
	hosts     []string // in lower case

	compare func(hash, password []byte) error // bcrypt.CompareHashAndPassword
	cost    int                               // of the most expensive hash
	turns   chan struct{}                     // limits the calls of compare at once: bcrypt is slow on purpose
	proved  proofs
	failed  failures
	log     *slog.Logger
}

// userKey is the key of the user in the context of a request.
type userKey struct{}

// NewAuthenticator returns an Authenticator with the settings of o. It reads the files of
// users and tokens.
func NewAuthenticator(o *Options, log *slog.Logger) (*Authenticator, error) {
	g := &Authenticator{
		header: o.Header, operators: o.Operators, compare: bcrypt.CompareHashAndPassword, turns: make(chan struct{}, 2), log: log,
	}
	g.proved.init()
	g.failed.init()
	for _, host := range o.Hosts {
		g.hosts = append(g.hosts, hostOf(host))
	}
	var err error
	if o.BasicFile != "" {
		if g.users, err = readUsers(o.BasicFile); err != nil {
			return nil, output.UsageError("--basic-file: %w", err)
		}
		for _, hash := range g.users {
			cost, _ := bcrypt.Cost(hash) // checked when it was read
			g.cost = max(g.cost, cost)
		}
	}
	if o.TokenFile != "" {
		if g.tokens, err = readTokens(o.TokenFile); err != nil {
			return nil, output.UsageError("--token-file: %w", err)
		}
	}
	if (o.Header == "") != (len(o.Trusted) == 0) {
		return nil, output.UsageError("--auth-header and --trusted belong together: anybody can send a header")
	}
	for _, text := range o.Trusted {
		text = strings.TrimSpace(text)
		prefix, err := netip.ParsePrefix(text)
		if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
			prefix, err = ip.Prefix(ip.BitLen())
		}
		if err != nil {
			return nil, output.UsageError("--trusted %q is no address, as 10.0.0.1 or 10.0.0.0/8", text)
		}
		g.trusted = append(g.trusted, prefix)
	}
	g.onlyHosts = g.Open() && o.Private || g.header != "" || len(g.hosts) > 0
	return g, nil
}

// Open reports whether users are not authenticated at all.
func (g *Authenticator) Open() bool { return g.users == nil && g.tokens == nil && g.header == "" }

// guard calls next for users that may read the pages. For others it closes the connection
// after the answer, so that a stranger needs a connection for each request.
func (g *Authenticator) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.onlyHosts && !ownHost(r.Host) && !g.named(r.Host) {
			w.Header().Set("Connection", "close")
			http.Error(w, "This server does not go by that name: use its address, or start it with --host and the name.", http.StatusForbidden)
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
			http.Error(w, "Too many wrong passwords came from your address: wait for ten seconds.", status)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="holdfast", charset="UTF-8"`)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, g.unknown(), status)
	})
}

// unknown returns the message for a user that is not known: it says what the user can do.
func (g *Authenticator) unknown() string {
	if g.users == nil && g.tokens == nil {
		return "Only a proxy names users here: open the address of the proxy, and sign in there."
	}
	return "The user name or the password is missing or wrong.\n\n" +
		"Load this page again, and type the user name and the password that the operator of this dashboard has given you.\n" +
		"If there is a token for you, it is the password. A program sends it in the header \"Authorization: Bearer TOKEN\"."
}

// ownHost reports whether host is localhost or a loopback address. Another site can give its
// own name the address of this machine, but it cannot have these names.
func ownHost(host string) bool {
	host = hostOf(host)
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// named reports whether host is one of the names in --host. If users are authenticated, every
// IP address is also accepted, because no other site can have it as its name.
func (g *Authenticator) named(host string) bool {
	host = hostOf(host)
	_, err := netip.ParseAddr(host)
	return err == nil && !g.Open() || slices.Contains(g.hosts, host)
}

// hostOf returns the host of "host:port" in a form for comparisons.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// identify returns the user of r, and the status of the answer: 200, 401, or 429 for an
// address from which too many wrong passwords came.
func (g *Authenticator) identify(r *http.Request) (user string, status int) {
	if g.header != "" && g.trusts(r.RemoteAddr) {
		if names := r.Header.Values(g.header); len(names) == 1 && names[0] != "" {
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

func (g *Authenticator) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	return err == nil && g.proxy(peer.Addr().Unmap())
}

// proxy reports whether ip is the address of a trusted proxy.
func (g *Authenticator) proxy(ip netip.Addr) bool {
	return slices.ContainsFunc(g.trusted, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// mostConns is how many connections an address may have.
func (g *Authenticator) mostConns(peer netip.Addr) int {
	if g.proxy(peer) {
		return mostOfProxy
	}
	return mostOfAddress
}

func (g *Authenticator) bearer(token string) (name string, ok bool) {
	for user, digest := range g.tokens { // all, so that the time does not show the match
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

// role returns the role of a request that guard has let through.
func (g *Authenticator) role(r *http.Request) dash.Role {
	if g.Open() || slices.Contains(g.operators, requester(r)) {
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
		switch cost, err := bcrypt.Cost([]byte(hash)); {
		case err != nil:
			return errors.New("the password is not hashed with bcrypt; htpasswd -B does that")
		case cost > mostCost:
			return fmt.Errorf("the hash has cost %d, so that each login takes many seconds; use %d at most: htpasswd -B -C 12", cost, mostCost)
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
	text, err := config.ReadFile(name, maxLines)
	if err != nil {
		return err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := read(line); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, number, err)
		}
	}
	return nil
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
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback(), nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false, err
	}
	for _, ip := range addresses {
		if !ip.Unmap().IsLoopback() {
			return false, nil
		}
	}
	return true, nil
}

// WarnOfHeader warns if every user of this machine can send the header that names the user,
// and if --host is missing.
func (g *Authenticator) WarnOfHeader(report *output.Reporter) {
	if g.header == "" {
		return
	}
	if g.proxy(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || g.proxy(netip.IPv6Loopback()) {
		report.Warn("--trusted has this machine: every program and every user on it can send %s, and be anybody", g.header)
	}
	if len(g.hosts) == 0 {
		report.Warn("--auth-header without --host: requests must name this server by its address or as localhost; give the name that browsers use with --host")
	}
}
