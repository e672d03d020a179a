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
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
)

const (
	// answerLimit bounds the time to find out what answers at an address, after a store could
	// not be opened there.
	answerLimit = 500 * time.Millisecond
	// askAgain is how long the result of that is used again.
	askAgain = 30 * time.Second
)

// explained is an error of Open whose text explains what is wrong. It wraps the error of the
// client library, and does not show its text.
type explained struct {
	text  string
	cause error
}

// Error implements error.
func (e *explained) Error() string { return e.text }

// Unwrap returns the error of the client library.
func (e *explained) Unwrap() error { return e.cause }

// explain returns the error of a store that could not be opened. If it finds another protocol
// at the first address, or TLS that the URL does not ask for, or no answer, the error
// explains that. Otherwise it returns err.
func (t *Target) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || t.addr == "" || answered(err) || !errors.Is(err, driver.ErrNotExecuted) {
		return err
	}
	// Not each time: a MySQL counts connections without a login, and blocks a host after a
	// hundred.
	if time.Since(t.asked) > askAgain {
		found, connected := whatAnswers(ctx, t.addr)
		t.asked, t.meant = time.Now(), ""
		if connected {
			t.meant = t.meaning(found)
		}
	}
	if t.meant == "" {
		return err
	}
	return &explained{fmt.Sprintf("%s at %s: %s", t.Kind.Title(), t.addr, t.meant), err}
}

// answered reports whether err is an answer of the store itself.
func answered(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.As(err, new(*redishold.ReplyError)) ||
		errors.As(err, new(*mysql.MySQLError)) || errors.As(err, new(*pgconn.PgError))
}

// meaning returns the explanation if such a server answers, or "" if that explains nothing.
func (t *Target) meaning(found string) string {
	own := map[Kind]string{Redis: aRedis, Etcd: anEtcd, ZooKeeper: aZooKeeper, Postgres: aPostgres, MySQL: aMySQL}[t.Kind]
	base, rest := t.scheme, ""
	if end := strings.IndexAny(base, "+-"); end >= 0 { // redis+cluster
		base, rest = base[:end], base[end:]
	}
	// rediss is redis with TLS; but postgres has its s without TLS, and no scheme is called postgre.
	plain, secure := strings.CutSuffix(base, "s")
	secure = secure && slices.Contains(Schemes(), plain)
	negotiates := t.Kind == Postgres || t.Kind == MySQL // TLS, after a greeting
	switch {
	case found == tlsServer && !secure && !negotiates:
		return fmt.Sprintf("the server speaks TLS: use %ss%s://", base, rest)
	case found == "":
		return "the server accepts connections and does not answer: it hangs, or a device between holds its answers back"
	case found == own && secure:
		return fmt.Sprintf("the server does not speak TLS: use %s%s://", plain, rest)
	case found == own || found == tlsServer && secure:
		return ""
	}
	return fmt.Sprintf("%s answers there, not %s", found, t.Kind.Title())
}

// What whatAnswers may find.
const (
	aRedis       = "a Redis"
	anHTTPServer = "an HTTP server"
	anEtcd       = "an etcd"
	aZooKeeper   = "a ZooKeeper"
	aPostgres    = "a PostgreSQL"
	aMySQL       = "a MySQL or MariaDB"
	tlsServer    = "a server with TLS"
)

// whatAnswers finds out what is at an address. found is "" if nothing answers. connected says
// whether a connection was possible. It sends each question over a separate connection, all
// at the same time.
func whatAnswers(ctx context.Context, addr string) (found string, connected bool) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	askAll(ctx, questions(), func(ctx context.Context, ask question) (string, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		return ask(ctx, conn), nil
	}, func(answer string, err error, cancel context.CancelFunc) {
		connected = connected || err == nil
		if found == "" && answer != "" {
			found = answer
			cancel()
		}
	})
	return found, connected
}

// question sends a request over a connection, and returns the kind of server. It returns ""
// if it does not know the answer.
type question func(ctx context.Context, conn net.Conn) string

// questions returns one question for each protocol.
func questions() []question {
	return []question{
		speaksTLS,
		asks("", isMySQL), // the server sends first
		asks("GET /version HTTP/1.0\r\n\r\n", isHTTPOrRedis),
		asks("srvr", isZooKeeper),
		asks("\x00\x00\x00\x08\x04\xd2\x16\x2f", isPostgres), // a request for TLS
	}
}

func speaksTLS(ctx context.Context, conn net.Conn) string {
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // nothing is sent
	if err := client.HandshakeContext(ctx); err == nil || errors.As(err, new(tls.AlertError)) || strings.Contains(err.Error(), "remote error: tls") {
		return tlsServer
	}
	return ""
}

func asks(text string, is func(answer []byte) string) question {
	return func(_ context.Context, conn net.Conn) string {
		if _, err := io.WriteString(conn, text); err != nil {
			return ""
		}
		answer := make([]byte, 1024)
		n, _ := conn.Read(answer)
		if bytes.HasPrefix(answer[:n], []byte("HTTP/")) { // the body may arrive later
			more, _ := io.ReadFull(conn, answer[n:])
			n += more
		}
		return is(answer[:n])
	}
}

// isMySQL recognizes the greeting of MySQL: a packet with number 0, and version 10 of the
// protocol or an error.
func isMySQL(answer []byte) string {
	if len(answer) > 5 && answer[2] == 0 && answer[3] == 0 && (answer[4] == 10 || answer[4] == 0xff) {
		return aMySQL
	}
	return ""
}

func isHTTPOrRedis(answer []byte) string {
	switch {
	case bytes.Contains(answer, []byte(`"etcdserver"`)):
		return anEtcd
	case bytes.Contains(answer, []byte("HTTPS")): // the server asks for HTTPS
		return tlsServer
	case bytes.HasPrefix(answer, []byte("HTTP/")):
		return anHTTPServer
	case len(answer) > 0 && (answer[0] == '-' || answer[0] == '$'):
		return aRedis
	}
	return ""
}

func isZooKeeper(answer []byte) string {
	for _, begin := range []string{"Zookeeper version", "srvr is not", "This ZooKeeper"} {
		if bytes.HasPrefix(answer, []byte(begin)) {
			return aZooKeeper
		}
	}
	return ""
}

func isPostgres(answer []byte) string {
	if string(answer) == "S" || string(answer) == "N" {
		return aPostgres
	}
	return ""
}

// firstAddr returns the first host of a URL with its port, or "" if the URL has no host.
func firstAddr(kind Kind, raw string) string {
	p, _ := redisurl.Cut(raw)
	host, _, _ := strings.Cut(p.Hosts, ",")
	port := map[Kind]string{Redis: "6379", Etcd: "2379", ZooKeeper: "2181", Postgres: "5432", MySQL: "3306"}[kind]
	if strings.Contains(p.Scheme, "sentinel") {
		port = "26379"
	}
	addr, err := redisurl.HostPort(host, port)
	if host == "" || err != nil {
		return ""
	}
	return addr
}
