package faultproxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

const (
	limit = 5 * time.Second
	quiet = 50 * time.Millisecond // for how long nothing may arrive
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setUp(t *testing.T) (*redistest.Server, *faultproxy.Proxy) {
	t.Helper()
	s := redistest.Start(t)
	return s, faultproxy.Start(t, s.Addr())
}

// client is a connection on which a test decides when to send and to read.
type client struct {
	t *testing.T
	net.Conn
	resp *proto.Client
}

func dial(t *testing.T, p *faultproxy.Proxy) *client {
	t.Helper()
	nc, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, Conn: nc, resp: proto.NewClient(nc)}
}

func (c *client) send(cmd ...string) {
	c.t.Helper()
	if err := proto.Write(c, cmd); err != nil {
		c.t.Fatal(err)
	}
}

// pipeline sends commands at once: a fault on one of them leaves no time for the next.
func (c *client) pipeline(cmds []string) {
	c.t.Helper()
	var all bytes.Buffer
	for _, cmd := range cmds {
		_ = proto.Write(&all, strings.Fields(cmd))
	}
	if _, err := c.Write(all.Bytes()); err != nil {
		c.t.Fatal(err)
	}
}

// want reads one reply and compares it, raw.
func (c *client) want(want string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(limit))
	if got, err := c.resp.Read(); err != nil || got != want {
		c.t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

func (c *client) wantSilence() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(quiet))
	if got, err := c.resp.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v, want nothing", got, err)
	}
}

// wantEnd reads the end of the stream and returns the error.
func (c *client) wantEnd() error {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(limit))
	got, err := c.resp.Read()
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v, want the end of the connection", got, err)
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return err
}

func wantLog(t *testing.T, p *faultproxy.Proxy, want ...faultproxy.Withheld) {
	t.Helper()
	got := p.Withheld()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i].Reply == want[i].Reply && got[i].Forwarded == want[i].Forwarded &&
			len(got[i].Command) > 1 && got[i].Command[1] == want[i].Command[1]
	}
	if !same {
		t.Fatalf("got log %+v, want %+v", got, want)
	}
}
