package bounded

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// pg returns a message of PostgreSQL.
func pg(kind string, length int) string {
	return kind + string(binary.BigEndian.AppendUint32(nil, uint32(4+length))) + strings.Repeat("x", max(length, 0))
}

// What no PostgreSQL sends is refused, and what it sends is not.
func TestPostgres(t *testing.T) {
	start := pg("R", 4) + pg("S", 20) + pg("K", 8) + pg("Z", 1)
	for _, c := range []struct{ name, answer, reason string }{
		{"an answer", start + pg("T", 30) + pg("D", 5<<20) + pg("D", 5<<20) + pg("Z", 1) + pg("D", 10<<20) + pg("Z", 1) + pg("A", 50), ""},
		{"parameters at the start", strings.Repeat(pg("S", 1000), 1100), "a greeting of"},
		{"notices at the start", strings.Repeat(pg("N", 1000), 1100), "a greeting of"},
		{"message at the start", "R\x7f\xff\xff\xff", "a greeting of"},
		{"negative length", start + "D\xff\xff\xff\xff", "a message of -1 bytes"},
		{"text", "HTTP/1.1 400 Bad Request", `not a PostgreSQL: it sent "HTTP/"`},
		{"parameters later", start + strings.Repeat(pg("S", 1000)+pg("Z", 1), 1100), "parameters of"},
		{"rows", start + strings.Repeat(pg("D", 1000), 17000), "an answer to a statement of"},
		{"row", start + "D\x01\x00\x00\x05", "an answer to a statement of"},
		{"notification", start + "A\x00\x01\x00\x05", "a notification of"},
		{"notifications", start + strings.Repeat(pg("A", 1000), 4300), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := io.ReadAll(Postgres(&peer{rest: c.answer}, io.Discard))
			refused(t, c.answer, string(all), err, c.reason)
		})
	}
	t.Run("notifications during a statement", func(t *testing.T) {
		server := &peer{rest: start}
		p := Postgres(server, io.Discard)
		if _, err := io.ReadAll(p); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(p, "statement"); err != nil {
			t.Fatal(err)
		}
		server.rest = strings.Repeat(pg("A", 1000), 4300)
		all, err := io.ReadAll(p)
		refused(t, "", string(all), err, "notifications during a statement")
	})
}

// What no MySQL sends is refused, and what it sends is not.
func TestMySQL(t *testing.T) {
	packet := func(number byte, body string) string {
		return string([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), number}) + body
	}
	greeting := packet(0, "\x0a8.0.36\x00"+strings.Repeat("x", 13+2+16+13)+"mysql_native_password\x00")
	query, login := packet(0, "\x03SELECT"), packet(1, strings.Repeat("\x00", 40))
	secure := packet(1, "\x00\x08\x00\x00"+strings.Repeat("\x00", 28))
	for _, c := range []struct{ name, greeting, sent, answer, reason string }{
		{"a result", greeting, query, packet(1, "\x02") + strings.Repeat(packet(2, strings.Repeat("x", 1000)), 100), ""},
		{"a wide result", greeting, query, packet(1, "\xfc\x00\x10"), ""},
		{"no result", greeting, query, packet(1, "\x00\x00\x00"), ""},
		{"an error", greeting, query, packet(1, "\xff\x00\x00"), ""},
		{"refused at once", packet(0, "\xff\x69\x04Host is blocked"), "", "", ""},
		{"a login", greeting, login, packet(2, "\xfemysql_native_password\x0001234567890123456789\x00") + packet(4, "\x00\x00\x00\x02\x00\x00\x00"), ""},
		{"an old greeting", packet(0, "\x0a5.0\x00"+strings.Repeat("x", 13+2)), "", "", ""},
		{"a short greeting", packet(0, "\x0a8.0.36\x00abc"), "", "", "too short"},
		{"a cut greeting", packet(0, "\x0a8.0.36\x00"+strings.Repeat("x", 13+2+20)), "", "", "too short"},
		{"a greeting without an end of the version", packet(0, "\x0axxx"), "", "", "too short"},
		{"a short refusal", packet(0, "\xff\x01"), "", "", "too short"},
		{"a short success", greeting, login, packet(2, "\x00"), "too short"},
		{"a short challenge", greeting, login, packet(2, "\xfemysql_native_password\x00ab\x00"), "too short"},
		{"text", "this is no MySQL", "", "", `not a MySQL or MariaDB: it sent "this "`},
		{"long greeting", "\xff\xff\xff\x00\x0a", "", "", "not a MySQL or MariaDB"},
		{"endless greeting", "\xff\xff\x00\x00\x0a" + strings.Repeat("x", 1<<17), "", "", "a greeting of"},
		{"all columns", greeting, query, packet(1, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), "18446744073709551615 columns"},
		{"columns", greeting, query, packet(1, "\xfd\x00\x00\x01"), "65536 columns"},
		{"file", greeting, query, packet(1, "\xfb/etc/hostname"), "a file of this machine"},
		{"broken number", greeting, query, packet(1, "\xfe") + packet(2, "12345678"), "columns"},
		{"endless result", greeting, query, packet(1, "\x02") + strings.Repeat(packet(2, strings.Repeat("x", 1<<16)), 200), "an answer of"},
		{"TLS", greeting, secure, "\xff\xff\xff\xff\xfb\xff", ""},
		{"endless TLS", greeting, secure, strings.Repeat("x", 9<<20), "an answer of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := &peer{rest: c.greeting}
			var last *Refusal
			conn := MySQL(server, func(r *Refusal) { last = r })
			all, err := io.ReadAll(conn)
			if err == nil && c.sent != "" {
				if _, err := io.WriteString(conn, c.sent); err != nil {
					t.Fatal(err)
				}
				server.rest = c.answer
				var more []byte
				more, err = io.ReadAll(conn)
				all = append(all, more...)
			}
			refused(t, c.greeting+c.answer, string(all), err, c.reason)
			if (last != nil) != (c.reason != "") {
				t.Errorf("the function got %v", last)
			}
		})
	}
}

// refused fails the test if err is not the Refusal with this reason. Without a reason, it fails
// the test unless the whole answer was read.
func refused(t *testing.T, answer, read string, err error, reason string) {
	t.Helper()
	if reason == "" {
		if err != nil || read != answer {
			t.Errorf("got %d of %d bytes and %v", len(read), len(answer), err)
		}
		return
	}
	if refusal := new(*Refusal); !errors.As(err, refusal) || !strings.Contains(err.Error(), reason) {
		t.Errorf("got %v, want a refusal with %q", err, reason)
	}
}
