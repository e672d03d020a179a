package redistest

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
)

// replyLimit bounds how long one command may take.
const replyLimit = 5 * time.Second

// Admin sends single commands to a server, each on a connection of its own, and
// reads its state. It needs no Close. A child process that has the address
// of a server uses it in place of a Server.
type Admin struct {
	addr     string
	password string
	limit    time.Duration // for one reply, and to connect; 0 for replyLimit
	t        testing.TB    // nil where nobody bound it
}

// At returns the Admin of the server at addr ("host:port"). password is "" where
// the server asks for none.
func At(addr, password string) Admin { return Admin{addr: addr, password: password} }

// Bind returns the Admin for use in t: the helpers that need an answer fail t
// where there is none, and must be called from t's goroutine. An Admin that
// nobody bound panics instead.
func (a Admin) Bind(t testing.TB) Admin {
	a.t = t
	return a
}

// within returns the Admin with another limit for a reply.
func (a Admin) within(limit time.Duration) Admin {
	a.limit = limit
	return a
}

// Addr returns the server's address as "host:port".
func (a Admin) Addr() string { return a.addr }

// URL returns the server's address as "redis://…", with the password if there is
// one.
func (a Admin) URL() string {
	u := url.URL{Scheme: "redis", Host: a.addr}
	if a.password != "" {
		u.User = url.UserPassword("", a.password)
	}
	return u.String()
}

// Do sends one command and returns the reply: nil, int64, string, []any of
// these, or an error, which is the server's error reply or says that there was
// no reply within 5 s. It never fails the test.
func (a Admin) Do(args ...string) any {
	c, err := a.dial()
	if err != nil {
		return err
	}
	defer c.close()
	return c.do(args...)
}

// Int sends one command and returns its number. Another reply fails the test.
func (a Admin) Int(args ...string) int64 {
	a.helper()
	return want[int64](a, args)
}

// String sends one command and returns its string, "" for nil. Another reply
// fails the test.
func (a Admin) String(args ...string) string {
	a.helper()
	reply := a.Do(args...)
	if reply == nil {
		return ""
	}
	s, ok := reply.(string)
	if !ok {
		a.unexpected(args, reply)
	}
	return s
}

// Strings sends one command and returns its list of strings, with "" for nil and
// numbers in decimal. Another reply fails the test.
func (a Admin) Strings(args ...string) []string {
	a.helper()
	list := want[[]any](a, args)
	res := make([]string, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case nil:
		case string, int64:
			res[i] = fmt.Sprint(v)
		default:
			a.unexpected(args, list)
		}
	}
	return res
}

// Map sends one command whose reply is a list of keys and values, such as
// HGETALL or CONFIG GET, and returns it as a map. Another reply fails the test.
func (a Admin) Map(args ...string) map[string]string {
	a.helper()
	list := a.Strings(args...)
	if len(list)%2 != 0 {
		a.unexpected(args, list)
	}
	res := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		res[list[i]] = list[i+1]
	}
	return res
}

func want[T any](a Admin, args []string) T {
	a.helper()
	reply := a.Do(args...)
	v, ok := reply.(T)
	if !ok {
		a.unexpected(args, reply)
	}
	return v
}

func (a Admin) unexpected(args []string, reply any) {
	a.helper()
	a.fail(fmt.Errorf("%q answered %T %v", args, reply, reply))
}

func (a Admin) helper() {
	if a.t != nil {
		a.t.Helper()
	}
}

func (a Admin) fail(err error) {
	if a.t == nil {
		panic(err)
	}
	a.t.Helper()
	a.t.Fatal(err)
}

// conn is a connection that speaks RESP2: no handshake, so that the only
// commands the server counts are the caller's.
type conn struct {
	net.Conn
	resp  *proto.Client
	limit time.Duration
}

func (a Admin) dial() (*conn, error) {
	limit := cmp.Or(a.limit, replyLimit)
	nc, err := net.DialTimeout("tcp", a.addr, limit)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, resp: proto.NewClient(nc), limit: limit}
	if a.password == "" {
		return c, nil
	}
	if err, ok := c.do("AUTH", a.password).(error); ok {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() { _ = c.Close() }

func (c *conn) do(args ...string) any {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return err
	}
	raw, err := c.resp.Do(args...)
	if err != nil {
		return fmt.Errorf("%q: %w", args[0], err)
	}
	return parse(raw)
}

// parse decodes one raw RESP2 reply.
func parse(raw string) any {
	v, err := proto.Parse(raw)
	if err != nil {
		return fmt.Errorf("reply %q: %w", raw, err)
	}
	return plain(v)
}

// plain turns what proto.Parse returns into int64 for int and nil for a null.
// Of a null string proto returns the raw line, which no key or value of our
// tests looks like; of a null list an empty slice, which is good enough.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case string:
		if v == proto.Nil {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}
