package peer

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/redishold"
)

// scriptsSocket sends the bytes of a call over a socket and reads the reply, with no client
// library: a call takes a connection that no other call uses. That is the least that a call
// costs which does not share a pipeline.
func scriptsSocket() Spec {
	return replaying("raw-scripts-socket", "none", func(t Target) (sender, error) {
		return &sockets{addr: t.Redis}, nil
	})
}

// sockets are as many connections as there were calls at once.
type sockets struct {
	addr string
	mu   sync.Mutex
	free []*socket
}

type socket struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func (s *sockets) run(ctx context.Context, script *redishold.Script, keys, args []string) (int64, error) {
	one, err := s.take(ctx)
	if err != nil {
		return 0, err
	}
	one.out = appendEvalSHA(one.out[:0], script.SHA(), keys, args)
	reply, err := one.exchange()
	if err != nil {
		_ = one.conn.Close() // the rest of the reply may still come
		return 0, err
	}
	s.mu.Lock()
	s.free = append(s.free, one)
	s.mu.Unlock()
	return reply, nil
}

func (s *sockets) take(ctx context.Context) (*socket, error) {
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		one := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return one, nil
	}
	s.mu.Unlock()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return &socket{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (s *sockets) close() {
	for _, one := range s.free {
		_ = one.conn.Close()
	}
}

func (s *socket) exchange() (int64, error) {
	if _, err := s.conn.Write(s.out); err != nil {
		return 0, err
	}
	line, err := s.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	number, found := strings.CutPrefix(strings.TrimSpace(line), ":")
	if !found {
		return 0, fmt.Errorf("Redis answered %q, not a number", line) //nolint:staticcheck // a name
	}
	return strconv.ParseInt(number, 10, 64)
}

// appendEvalSHA appends EVALSHA as RESP writes it.
func appendEvalSHA(b []byte, sha string, keys, args []string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", 3+len(keys)+len(args))
	b = appendBulk(b, "EVALSHA", sha, strconv.Itoa(len(keys)))
	return appendBulk(appendBulk(b, keys...), args...)
}

func appendBulk(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(text)), 10)
		b = append(b, "\r\n"...)
		b = append(b, text...)
		b = append(b, "\r\n"...)
	}
	return b
}
