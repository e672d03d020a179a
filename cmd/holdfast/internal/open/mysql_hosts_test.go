package open

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/driver"
)

// fakeHost is a server of MySQL in name only.
type fakeHost struct {
	sqldriver.Connector
	fails         error  // what Connect returns
	silent, stuck bool   // it answers neither Connect nor, if only stuck, a statement
	readOnly      string // the variable that is ON
	tries, open   int
}

// Connect implements driver.Connector of database/sql.
func (h *fakeHost) Connect(ctx context.Context) (sqldriver.Conn, error) {
	h.tries++
	if h.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if h.fails != nil {
		return nil, h.fails
	}
	h.open++
	return &fakeConn{host: h}, nil
}

type fakeConn struct {
	sqldriver.Conn
	host *fakeHost
}

func (c *fakeConn) Close() error {
	c.host.open--
	return nil
}

func (c *fakeConn) QueryContext(ctx context.Context, _ string, _ []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if c.host.stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &fakeRows{on: c.host.readOnly}, nil
}

type fakeRows struct {
	sqldriver.Rows
	on string
}

func (*fakeRows) Close() error { return nil }

func (r *fakeRows) Next(row []sqldriver.Value) error {
	if r.on == "" {
		return io.EOF
	}
	row[0], row[1] = []byte(r.on), []byte("ON")
	return nil
}

// several is a connector of hosts that are called a:3306, b:3306, …
func several(hosts ...*fakeHost) *mysqlHosts {
	h := &mysqlHosts{limit: 5 * time.Second}
	for i, host := range hosts {
		h.all = append(h.all, mysqlHost{host, string(rune('a'+i)) + ":3306"})
	}
	return h
}

// The first host that takes writes is used, and nothing of the others is kept.
func TestMySQLHostsInTheirOrder(t *testing.T) {
	hosts := []*fakeHost{{fails: errors.New("down")}, {readOnly: "read_only"}, {}, {}}
	conn, err := several(hosts...).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.(*fakeConn).host; got != hosts[2] {
		t.Errorf("got a connection to %+v, want the first that takes writes", got)
	}
	for i, want := range []fakeHost{{tries: 1}, {tries: 1}, {tries: 1, open: 1}, {}} {
		if got := hosts[i]; got.tries != want.tries || got.open != want.open {
			t.Errorf("host %d: tried %d times, %d connections are open, want %d and %d", i, got.tries, got.open, want.tries, want.open)
		}
	}
}

// The error has each host with its reason, on one line.
func TestMySQLHostsThatAllFail(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 3306}, Err: errors.New("connect: connection refused")}
	down, replica := &fakeHost{fails: refused}, &fakeHost{readOnly: "super_read_only"}
	h := several(down, replica)
	h.all[0].addr = "10.0.0.1:3306"
	_, err := h.Connect(t.Context())
	const want = "cannot connect to 10.0.0.1:3306: connection refused; b:3306: the server takes no writes: super_read_only is ON"
	if err == nil || err.Error() != want || !errors.Is(err, driver.ErrNotExecuted) {
		t.Errorf("got %v, want %s, as ErrNotExecuted", err, want)
	}
	if err = failure(MySQL, "a, b", err); errors.Is(err, driver.ErrRefused) || err.Error() != "MySQL at a, b: "+want {
		t.Errorf("got %v, want the same of MySQL, and no ErrRefused: a replica may be promoted", err)
	}
	denied := &fakeHost{fails: &mysql.MySQLError{Number: 1045, Message: "Access denied"}}
	_, err = several(down, denied).Connect(t.Context())
	if err = failure(MySQL, "a, b", err); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "b:3306: Error 1045: Access denied") {
		t.Errorf("got %v, want ErrRefused", err)
	}
}

// A host that does not answer leaves time for those after it.
func TestMySQLHostsThatAreSilent(t *testing.T) {
	for name, test := range map[string]struct {
		hosts  []*fakeHost
		within time.Duration // of the context; 0 is without end
		want   time.Duration
		fails  bool
	}{
		"no end":           {hosts: []*fakeHost{{silent: true}, {}}, want: 5 * time.Second},
		"an end":           {hosts: []*fakeHost{{silent: true}, {}}, within: 3 * time.Second, want: 1500 * time.Millisecond},
		"a late end":       {hosts: []*fakeHost{{silent: true}, {}}, within: time.Minute, want: 5 * time.Second},
		"only a statement": {hosts: []*fakeHost{{stuck: true}, {}}, within: 3 * time.Second, want: 1500 * time.Millisecond},
		"all":              {hosts: []*fakeHost{{silent: true}, {stuck: true}, {silent: true}}, within: 3 * time.Second, want: 3 * time.Second, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if test.within > 0 {
					ctx, cancel = context.WithTimeout(ctx, test.within)
				}
				defer cancel()
				began := time.Now()
				_, err := several(test.hosts...).Connect(ctx)
				if took := time.Since(began); took != test.want || (err != nil) != test.fails {
					t.Errorf("got %v after %v, want an error: %v, after %v", err, took, test.fails, test.want)
				}
				if open := test.hosts[0].open; open != 0 {
					t.Errorf("%d connections to the first host are open", open)
				}
			})
		})
	}
}
