package zkhold

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// script is a connection from which the reader gets given bytes, a given number at once.
type script struct {
	net.Conn
	arrives []byte
	at      int // at once
	sent    bytes.Buffer
	closed  bool
}

func (s *script) Close() error {
	s.closed = true
	return nil
}

func (s *script) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 2181} }

func (s *script) Read(b []byte) (int, error) {
	n := copy(b[:min(len(b), s.at)], s.arrives)
	s.arrives = s.arrives[n:]
	return n, nil
}

func (s *script) Write(b []byte) (int, error) { return s.sent.Write(b) }

// packet returns a packet with these numbers and texts, after its length.
func packet(parts ...any) []byte {
	body := []byte{0, 0, 0, 0}
	for _, p := range parts {
		if text, ok := p.(string); ok {
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(text))), text...)
			continue
		}
		body, _ = binary.Append(body, binary.BigEndian, p)
	}
	binary.BigEndian.PutUint32(body, uint32(len(body)-4))
	return body
}

// The czxid of a node is read from the reply to its creation, among other packets and in
// whatever pieces they arrive.
func TestCzxidOfACreation(t *testing.T) {
	const path = "/deploy/_c_x-lock-"
	greeting := packet(int32(0), int32(30_000), session, "password")
	others := [][]byte{
		packet(int32(-1), int64(-1), int32(0), int32(2), int32(3), "/deploy"), // a watch
		packet(int32(-2), int64(7), int32(0)),                                 // a ping
		packet(int32(6), int64(7), int32(0), bytes.Repeat([]byte{1}, 2*mostReply)),
	}
	for name, c := range map[string]struct {
		answer []byte
		want   uint64
	}{
		"made":             {packet(int32(5), int64(9), int32(0), path+"0000000012", int64(9), int64(9)), 9},
		"not made":         {packet(int32(5), int64(9), int32(-101)), 0},
		"without a stat":   {packet(int32(5), int64(9), int32(0), path+"0000000012"), 0},
		"a path too long":  {packet(int32(5), int64(9), int32(0), string(make([]byte, mostReply)), int64(9)), 0},
		"another's answer": {packet(int32(4), int64(9), int32(0), path+"0000000012", int64(9), int64(9)), 0},
	} {
		for _, at := range []int{1, 3, 4, 17, 1 << 20} {
			l := &link{creations: make(map[string]*creation), nodes: make(map[nodeKey]*node)}
			s := &script{at: at}
			w := &wire{Conn: s, in: bufio.NewReader(s), link: l}
			read := func(packets ...[]byte) {
				s.arrives = bytes.Join(packets, nil)
				for b := make([]byte, 1<<20); len(s.arrives) > 0; {
					if _, err := w.Read(b); err != nil {
						t.Fatal(err)
					}
				}
			}
			connect := packet(int32(0), int32(opCreate), int32(-1), int32(-1)) // the epoch of a transaction is no request
			if _, err := w.Write(connect); err != nil || !bytes.Equal(s.sent.Bytes(), connect) {
				t.Errorf("%s: the first packet: sent %q, want %q; error %v", name, s.sent.Bytes(), connect, err)
			}
			s.sent.Reset()
			read(greeting)
			creation := l.beginCreation(path)
			request := packet(int32(5), int32(opCreate), path, "note")
			before := bytes.Clone(request)
			if n, err := w.Write(request); n != len(request) || err != nil {
				t.Fatalf("Write: got %d and error %v", n, err)
			}
			if want := packet(int32(5), int32(opCreate2), path, "note"); !bytes.Equal(s.sent.Bytes(), want) || !bytes.Equal(request, before) {
				t.Errorf("%s: sent %q, want %q, and the client's own %q as it was", name, s.sent.Bytes(), want, request)
			}
			if !<-creation.sent {
				t.Errorf("%s: it is said not to be sent", name)
			}
			read(others[0], others[1], others[2], c.answer, others[0], others[1])
			if l.endCreation(creation); creation.czxid != c.want {
				t.Errorf("%s, %d at once: got czxid %d, want %d", name, at, creation.czxid, c.want)
			}
			if l.session != session {
				t.Errorf("%s, %d at once: got session %x", name, at, l.session)
			}
		}
	}
}

// Watches of several nodes are one request, which asks for no events of earlier changes.
// Long lists are several requests.
func TestWatchesAreOneRequest(t *testing.T) {
	s := &script{}
	w := &wire{Conn: s, link: &link{opts: &Options{}}}
	if err := w.watch([]string{"/deploy/a", "/deploy/bc"}); err != nil {
		t.Fatal(err)
	}
	want := packet(int32(-8), int32(opSetWatches), int64(math.MaxInt64), int32(2), "/deploy/a", "/deploy/bc", int32(0), int32(0))
	if !bytes.Equal(s.sent.Bytes(), want) {
		t.Errorf("sent %q, want %q", s.sent.Bytes(), want)
	}
	s.sent.Reset()
	if err := w.watch(nil); err != nil || s.sent.Len() > 0 {
		t.Errorf("for no node: sent %q and error %v, want nothing", s.sent.Bytes(), err)
	}
	long := strings.Repeat("x", 3*maxName)
	if err := w.watch(slices.Repeat([]string{long}, 2*mostWatches+1)); err != nil {
		t.Fatal(err)
	}
	packets := 0
	for b := s.sent.Bytes(); len(b) > 0; packets++ {
		n := binary.BigEndian.Uint32(b)
		if n > 1<<20 {
			t.Errorf("a packet of %d bytes", n)
		}
		b = b[4+n:]
	}
	if packets != 3 {
		t.Errorf("%d packets for %d nodes, want 3", packets, 2*mostWatches+1)
	}
}

// A connection has no watches before the client has sent all credentials, and is closed if
// the server refuses watches, because the client ignores that reply.
func TestWatchesOfAConnection(t *testing.T) {
	l := &link{opts: &Options{Auth: make([]Credentials, 1)}, creations: make(map[string]*creation)}
	greeting := packet(int32(0), int32(30_000), session, "password")
	s := &script{at: 1 << 20, arrives: greeting}
	w := &wire{Conn: s, in: bufio.NewReader(s), link: l}
	read := func() {
		if _, err := w.Read(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if err := w.watch([]string{"/deploy/a"}); !errors.Is(err, driver.ErrNotExecuted) || s.sent.Len() > 0 {
		t.Errorf("before the credentials: got error %v and %d bytes sent, want ErrNotExecuted and none", err, s.sent.Len())
	}
	if _, err := w.Write(packet(int32(-4), int32(opAuth), int32(0), "digest", "user:password")); err != nil {
		t.Fatal(err)
	}
	if err := w.watch([]string{"/deploy/a"}); err != nil {
		t.Errorf("after the credentials: got error %v", err)
	}
	for _, failed := range []int32{0, -127} {
		s.arrives = packet(int32(-8), int64(7), failed)
		read()
		if s.closed != (failed != 0) {
			t.Errorf("watches answered with %d: the connection is closed: %v", failed, s.closed)
		}
	}
}

// A part of a packet may have been written before an error. The server would read the next
// packet as the rest of it, so the connection is closed.
func TestFailedWriteClosesTheConnection(t *testing.T) {
	for name, write := range map[string]func(*wire) error{
		"a request": func(w *wire) error {
			_, err := w.Write(packet(int32(5), int32(2), "/deploy/a", int32(-1)))
			return err
		},
		"watches": func(w *wire) error { return w.watch([]string{"/deploy/a"}) },
	} {
		b := &broken{meanwhile: func() {}}
		w := &wire{Conn: b, link: &link{opts: &Options{}}}
		if err := write(w); !errors.Is(err, net.ErrClosed) || !b.closed {
			t.Errorf("%s: got error %v and that the connection is closed: %v, want the error of the write and true", name, err, b.closed)
		}
	}
}

// Requests for other nodes, and other requests, are sent as they are.
func TestOtherRequestsAreSentAsTheyAre(t *testing.T) {
	l := &link{creations: make(map[string]*creation)}
	l.beginCreation("/deploy/node")
	for _, request := range [][]byte{
		packet(int32(5), int32(opCreate), "/deploy/other", "note"),
		packet(int32(5), int32(opCreate)),
		packet(int32(5), int32(2), "/deploy/node", int32(-1)),
		packet(int32(5)),
	} {
		s := &script{}
		if _, err := (&wire{Conn: s, link: l}).Write(request); err != nil || !bytes.Equal(s.sent.Bytes(), request) {
			t.Errorf("sent %q and error %v, want %q", s.sent.Bytes(), err, request)
		}
	}
}
