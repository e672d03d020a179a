package open

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounded"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A password that may go to another machine without TLS is a warning, unless the URL decides that.
func TestExposedPasswords(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	t.Setenv("PGPASSWORD", "")
	const where = "192.0.2.1"
	for url, want := range map[string]bool{
		"postgres://u:p@192.0.2.1/d":                                      true,
		"postgres://u:p@192.0.2.1/d?sslmode=prefer":                       true,
		"postgres://u:p@192.0.2.1/d?sslmode=allow":                        true,
		"postgres://u:p@localhost,192.0.2.1/d":                            true,
		"postgres://u@192.0.2.1/d?passfile=/absent":                       false,
		"postgres://u:p@192.0.2.1/d?sslmode=disable":                      false,
		"postgres://u:p@192.0.2.1/d?sslmode=require":                      false,
		"postgres://u:p@192.0.2.1/d?sslmode=verify-full":                  false,
		"postgres://u:p@localhost/d":                                      false,
		"postgres://u:p@127.0.0.1/d":                                      false,
		"postgres://u:p@[::1]/d":                                          false,
		"postgres://u:p@/d?host=/run/postgresql":                          false,
		"mysql://u:p@192.0.2.1/d":                                         true,
		"mysql://u:p@192.0.2.1/d?tls=preferred":                           true,
		"mysql://u:p@127.0.0.1,192.0.2.1/d":                               true,
		"mysql://u@192.0.2.1/d":                                           false,
		"mysql://u:p@192.0.2.1/d?tls=true":                                false,
		"mysql://u:p@192.0.2.1/d?tls=skip-verify":                         false,
		"mysql://u:p@192.0.2.1/d?tls=false":                               false,
		"mysql://u:p@127.0.0.1/d":                                         false,
		"mysql://u:p@/d?socket=/run/mysqld/mysqld.sock":                   false,
		"redis://u:p@192.0.2.1":                                           false, // the scheme says that there is no TLS
		"zk://u:p@192.0.2.1":                                              false,
		"postgres://u:p@192.0.2.1/d?sslmode=verify-full&listen=192.0.2.2": false,
	} {
		target, err := Parse(Request{Access: Access{URL: url}})
		if err != nil {
			t.Fatal(err)
		}
		got := target.Exposed()
		if (got != "") != want || want && !strings.Contains(got, where) || strings.Contains(got, "p@") {
			t.Errorf("%s: got the warning %q", url, got)
		}
	}
}

// The texts of drivers become texts for people. The causes stay.
func TestPlainTexts(t *testing.T) {
	const at = "127.0.0.1:5432"
	for text, want := range map[string]string{
		"127.0.0.1:5432 (127.0.0.1): tls error: server refused TLS connection; 127.0.0.1:5432 (127.0.0.1): failed to receive message: unexpected EOF": "PostgreSQL at 127.0.0.1:5432: the server refused TLS; unexpected EOF",
		"failed to connect to `user=u database=d`: 127.0.0.1:5432 (127.0.0.1): tls error: server refused TLS connection":                              "PostgreSQL at 127.0.0.1:5432: the server refused TLS",
		"127.0.0.1:1 (localhost): dial error: refused":                                                     "PostgreSQL at 127.0.0.1:5432: 127.0.0.1:1: refused",
		"invalid connection: refused the answer of 127.0.0.1:5432, and closed the connection: it was long": "PostgreSQL at 127.0.0.1:5432: refused the answer, and closed the connection: it was long",
	} {
		cause := errors.New(text)
		for _, err := range []error{unreachable(Postgres, at, cause), failure(Postgres, at, cause)} {
			if err.Error() != want || !errors.Is(err, cause) || !errors.Is(err, driver.ErrNotExecuted) {
				t.Errorf("got %q, want %q", err, want)
			}
		}
	}
	r := &refusals{}
	if err := r.explain(mysql.ErrCleartextPassword); !strings.Contains(err.Error(), "in clear text, and does not get it") || strings.Contains(err.Error(), "allowCleartext") {
		t.Errorf("got %v", err)
	}
	if err := r.explain(errors.New("local file '/etc/hostname' is not registered")); !strings.Contains(err.Error(), "asked for a file of this machine") {
		t.Errorf("got %v", err)
	}
	r.last.Store(&bounded.Refusal{Addr: at, Reason: "it was long"})
	if err := r.explain(mysql.ErrInvalidConn); !errors.Is(err, mysql.ErrInvalidConn) || !errors.As(err, new(*bounded.Refusal)) {
		t.Errorf("got %v", err)
	}
	if err := r.explain(mysql.ErrInvalidConn); err != mysql.ErrInvalidConn { //nolint:errorlint // nothing is added
		t.Errorf("got %v for another connection", err)
	}
}

// mysqlAnswers starts a server that greets as a MySQL does, and sends one answer to each packet.
func mysqlAnswers(t *testing.T, greeting, login, answer string) string {
	t.Helper()
	return must.Serve(t, func(conn net.Conn) {
		text := greeting
		for b, next := make([]byte, 1<<12), login; ; next = answer {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
			if _, err := conn.Read(b); err != nil {
				return
			}
			text = next
		}
	})
}

// mysqlPacket returns a packet of MySQL.
func mysqlPacket(number byte, body string) string {
	return string([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), number}) + body
}

var (
	mysqlGreeting = mysqlPacket(0, "\x0a8.0.36\x00\x01\x00\x00\x00abcdefgh\x00\xff\xf7\x21\x02\x00\xff\xc7\x15"+strings.Repeat("\x00", 10)+"abcdefghijkl\x00mysql_native_password\x00")
	mysqlOK       = mysqlPacket(2, "\x00\x00\x00\x02\x00\x00\x00")
)

// Packets with which the driver panics are errors, at the login and later.
func TestMySQLPanicsAreErrors(t *testing.T) {
	column := mysqlPacket(2, "\x03def\x01d\x01t\x01t\x01c\x01c\x0c\x21\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00")
	for name, c := range map[string][3]string{
		"short greeting":      {mysqlPacket(0, "\x0aabc"), "", ""},
		"short login":         {mysqlGreeting, mysqlPacket(2, "\xff"), ""},
		"short number":        {mysqlGreeting, mysqlOK, mysqlPacket(1, "\xfc")},
		"columns":             {mysqlGreeting, mysqlOK, mysqlPacket(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff")},
		"short column":        {mysqlGreeting, mysqlOK, mysqlPacket(1, "\x01") + mysqlPacket(2, "\x03d")},
		"short row":           {mysqlGreeting, mysqlOK, mysqlPacket(1, "\x01") + column + mysqlPacket(3, "\xfe\x00\x00\x02\x00") + mysqlPacket(4, "\xfc\x01")},
		"packet of a warning": {mysqlGreeting, mysqlOK, mysqlPacket(1, "\x00")},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := Parse(at("mysql://u:p@" + mysqlAnswers(t, c[0], c[1], c[2]) + "/d?dial_timeout=2s"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := target.Open(t.Context())
			if s != nil {
				s.Close()
			}
			if err == nil {
				t.Error("the store is open")
			}
			t.Log(err)
		})
	}
}

// FuzzMySQLServer shows that no answer of a MySQL ends the program.
func FuzzMySQLServer(f *testing.F) {
	for _, answer := range []string{"\x01", "\xfb/etc/hostname", "\xfe\xff\xff\xff\xff\xff\xff\xff\xff", "\x00\x00\x00\x02\x00\x00\x00", "\xff\x15\x04#28000no"} {
		f.Add(mysqlGreeting, mysqlOK, mysqlPacket(1, answer))
		f.Add(mysqlGreeting, mysqlPacket(2, answer), "")
		f.Add(mysqlPacket(0, "\x0a"+answer), "", "")
	}
	f.Fuzz(func(t *testing.T, greeting, login, answer string) {
		target, err := Parse(at("mysql://u:p@" + mysqlAnswers(t, greeting, login, answer) + "/d"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if s, err := target.open(ctx); err == nil {
			s.Close()
		}
	})
}

// FuzzPostgresServer shows that no answer of a PostgreSQL ends the program, and that what is
// announced and does not come takes no memory.
func FuzzPostgresServer(f *testing.F) {
	message := func(kind, body string) string {
		return kind + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))) + body
	}
	start := message("R", "\x00\x00\x00\x00") + message("S", "a\x00b\x00") + message("Z", "I")
	for _, next := range []string{
		"", message("E", "SERROR\x00C28P01\x00Mx\x00\x00"), message("T", "\x00\x01a\x00"), message("D", "\x00\x01\xff\xff\xff\xff"),
		message("A", "\x00\x00\x00\x01a\x00b\x00"), message("t", "\xff\xff"), message("v", "\x00\x00\x00\x00\xff\xff\xff\xff"), "D\x7f\xff\xff\xff",
		message("R", "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"), message("G", "\x00\xff\xff"), message("n", ""),
	} {
		f.Add(start + next)
		f.Add(next)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		both := bounded.Postgres(strings.NewReader(answer), io.Discard)
		for frontend := pgproto3.NewFrontend(both, both); ; {
			if _, err := frontend.Receive(); err != nil {
				return
			}
		}
	})
}

// A server that sends something else than the store is quoted.
func TestUnknownAnswer(t *testing.T) {
	target, err := Parse(at("etcd://" + answering(t, "this is no etcd\r\n", "")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = target.Open(t.Context())
	if want := `a server that sends "this is no etcd\r\n" answers there, not etcd`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, which is a timeout", err)
	}
}
