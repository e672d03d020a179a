package open

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounded"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
)

const (
	// answerLimit is the time limit of whatAnswers.
	answerLimit = 500 * time.Millisecond
	// askAgain is how long a result of whatAnswers is used before the address is asked again.
	askAgain = 30 * time.Second
)

// probe remembers what answered at the address of a store. Attempts to open the store use
// this result for the time askAgain, because a MySQL counts connections without a login: after
// a hundred, it blocks the host of the client.
type probe struct {
	asked time.Time
	meant string // the explanation that was found at that time; "" if none was found
}

// explain returns an error that explains why the store could not be opened, if it finds one of
// these at the first address of the URL: another protocol, TLS where the URL asks for none, no
// TLS where the URL asks for it, or a server that does not answer. If not, it returns `err`.
func (t *Target) explain(ctx context.Context, err error) error {
	addr := t.firstAddr()
	if ctx.Err() != nil || addr == "" || answered(err) || !errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	if time.Since(t.probe.asked) > askAgain {
		found, connected := whatAnswers(ctx, addr)
		t.probe.asked, t.probe.meant = time.Now(), ""
		if connected {
			t.probe.meant = t.meaning(found)
		}
	}
	vague := t.probe.meant == silent || strings.HasPrefix(t.probe.meant, stranger)
	if t.probe.meant == "" || vague && errors.As(err, new(*bounded.Refusal)) {
		return err
	}
	return unreachable(t.Kind, addr, errors.New(t.probe.meant))
}

// answered reports whether err is an answer of the store itself.
func answered(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.As(err, new(*redishold.ReplyError)) ||
		errors.As(err, new(*mysql.MySQLError)) || errors.As(err, new(*pgconn.PgError)) ||
		status.Code(err) == codes.ResourceExhausted // a message that is too long
}

// meaning returns what the result `found` of whatAnswers explains, or "" if it explains nothing.
func (t *Target) meaning(found string) string {
	own := t.Kind.scheme().server
	base, _, _ := strings.Cut(strings.ToLower(t.access.URL), "://")
	rest := ""
	if end := strings.IndexAny(base, "+-"); end >= 0 { // redis+cluster
		base, rest = base[:end], base[end:]
	}
	// An s at the end means TLS if the scheme also exists without it: rediss, but not postgres.
	plain, secure := strings.CutSuffix(base, "s")
	secure = secure && slices.Contains(Schemes(), plain)
	negotiates := t.Kind == Postgres || t.Kind == MySQL // TLS begins after some messages without TLS
	switch {
	case found == tlsServer && !secure && !negotiates:
		return fmt.Sprintf("the server speaks TLS: use %ss%s://", base, rest)
	case found == "":
		return silent
	case found == closesAtOnce:
		return "the server accepts each connection and closes it at once: it is a proxy without a server behind it, it has too many connections, or it does not admit this address"
	case found == own && secure:
		return fmt.Sprintf("the server does not speak TLS: use %s%s://", plain, rest)
	case found == own || found == tlsServer && secure:
		return ""
	}
	return fmt.Sprintf("%s answers there, not %s", found, t.Kind.Title())
}

// silent explains that whatAnswers recognized no answer.
const silent = "the server accepts connections and does not answer: it hangs, or a device between holds its answers back"

// The results of whatAnswers.
const (
	aRedis       = "a Redis"
	anHTTPServer = "an HTTP server"
	anEtcd       = "an etcd"
	aZooKeeper   = "a ZooKeeper"
	aPostgres    = "a PostgreSQL"
	aMySQL       = "a MySQL or MariaDB"
	tlsServer    = "a server with TLS"
	closesAtOnce = "a server that closes each connection" // before it has sent anything
	stranger     = "a server that sends "                 // and the beginning of its answer
)

// The questions of whatAnswers. Each is the text that a client of one protocol sends first.
const (
	askNothing   = "" // the server of a MySQL sends first
	askVersion   = "GET /version HTTP/1.0\r\n\r\n"
	askZooKeeper = "srvr"
	askPostgres  = "\x00\x00\x00\x08\x04\xd2\x16\x2f" // a request for TLS
	askTLS       = "a handshake of TLS"               // this text is not sent: see speaksTLS
)

// whatAnswers finds out which kind of server is at an address. It sends all questions at the
// same time, each over a separate connection. The result `found` is "" if there was no answer. If an answer is that of no known kind of server, `found` quotes its beginning. The
// result `connected` says whether a connection was possible.
func whatAnswers(ctx context.Context, addr string) (found string, connected bool) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	questions := []string{askNothing, askVersion, askZooKeeper, askPostgres, askTLS}
	closed := 0
	var unknown atomic.Pointer[string] // the beginning of an answer that was not recognized
	for found, err := range askAll(ctx, questions, func(ctx context.Context, question string) (string, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		if question == askTLS {
			return speaksTLS(ctx, conn), nil
		}
		answer, err := answerTo(question, conn)
		if len(answer) == 0 && err != nil && ctx.Err() == nil {
			return closesAtOnce, nil
		}
		known := recognize(question, answer)
		if known == "" && answer != "" {
			unknown.Store(new(answer[:min(len(answer), 24)]))
		}
		return known, nil
	}) {
		connected = connected || err == nil
		switch found {
		case "":
		case closesAtOnce: // servers do so with a question of another protocol
			closed++
		default:
			return found, true
		}
	}
	if begins := unknown.Load(); begins != nil {
		return fmt.Sprintf(stranger+"%q", *begins), true
	}
	if closed == len(questions)-1 { // the question for TLS does not show that
		return closesAtOnce, true
	}
	return "", connected
}

func speaksTLS(ctx context.Context, conn net.Conn) string {
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // nothing is sent
	if err := client.HandshakeContext(ctx); err == nil || errors.As(err, new(tls.AlertError)) || strings.Contains(err.Error(), "remote error: tls") {
		return tlsServer
	}
	return ""
}

// answerTo returns the beginning of the answer to a question. If there is none, it returns "" and
// the error of the connection.
func answerTo(question string, conn net.Conn) (string, error) {
	_, _ = io.WriteString(conn, question) // if this fails, Read below fails, too
	answer := make([]byte, 1024)
	n, err := conn.Read(answer)
	if bytes.HasPrefix(answer[:n], []byte("HTTP/")) { // the body may arrive later
		more, _ := io.ReadFull(conn, answer[n:])
		n += more
	}
	return string(answer[:n]), err
}

// recognize returns the kind of the server that gave this answer to this question, or "" if it
// does not know such an answer.
func recognize(question, answer string) string {
	begins := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(answer, text) })
	}
	switch {
	case question == askNothing && len(answer) > 5 && answer[2:4] == "\x00\x00" && (answer[4] == 10 || answer[4] == 0xff):
		return aMySQL // a packet with number 0 that begins with the version 10 of the protocol, or with an error
	case question == askZooKeeper && begins("Zookeeper version", "srvr is not", "This ZooKeeper"):
		return aZooKeeper
	case question == askPostgres && (answer == "S" || answer == "N"):
		return aPostgres
	case question != askVersion:
		return ""
	case strings.Contains(answer, `"etcdserver"`):
		return anEtcd
	case strings.Contains(answer, "HTTPS"): // the server asks for HTTPS
		return tlsServer
	case begins("HTTP/"):
		return anHTTPServer
	case begins("-", "$"):
		return aRedis
	}
	return ""
}

// firstAddr returns the first host of the URL with its port, or "" if the URL has no host.
func (t *Target) firstAddr() string {
	p, _ := redisurl.Cut(t.access.URL)
	host, _, _ := strings.Cut(p.Hosts, ",")
	port := t.Kind.scheme().port
	if strings.Contains(p.Scheme, "sentinel") {
		port = "26379"
	}
	if addr, err := redisurl.HostPort(host, port); host != "" && err == nil {
		return addr
	}
	return ""
}
