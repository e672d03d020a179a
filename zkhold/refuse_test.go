package zkhold

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounded"
)

// exchange returns what a client reads of an answer that arrives in parts, and the error. The
// answer begins with the greeting. The client has sent these requests.
func exchange(answer []byte, part int, requests ...[]byte) (read []byte, l *link, err error) {
	l = &link{servers: 1, quit: make(chan struct{}), creations: make(map[string]*creation), nodes: make(map[nodeKey]*node)}
	s := &script{at: part, arrives: answer}
	w := &wire{Conn: s, in: bufio.NewReader(s), link: l, handshakeDone: true}
	for _, r := range requests {
		if _, err := w.Write(r); err != nil {
			return nil, l, err
		}
	}
	w.handshakeDone = false
	for b := make([]byte, 1<<16); ; {
		n, err := w.Read(b)
		read = append(read, b[:n]...)
		switch {
		case err != nil && !s.closed:
			return read, l, errors.New("the connection was not closed")
		case err != nil:
			return read, l, err
		case n == 0:
			return read, l, nil
		}
	}
}

// header returns the header of the reply to a request, with its data.
func header(xid int32, data ...any) []byte {
	return packet(append([]any{xid, int64(1), int32(0)}, data...)...)
}

// The client would allocate what a packet announces, or panic. Such a packet is refused before the
// client has it, in whatever parts it arrives.
func TestRefusedPackets(t *testing.T) {
	greeting := packet(int32(0), int32(30_000), session, "0123456789012345", int8(0))
	ask := func(xid, op int32) []byte { return packet(xid, op, "/a", int8(0)) }
	names := func(n int) []byte {
		return header(5, int32(n), bytes.Repeat([]byte{0, 0, 0, 1, 'x'}, n), bytes.Repeat([]byte{0}, 68))
	}
	stat := bytes.Repeat([]byte{1}, 68)
	for _, c := range []struct {
		name   string
		answer [][]byte
		op     int32 // of the request 5
		reason string
	}{
		{"greeting of 2 GB", [][]byte{{0x7f, 0xff, 0xff, 0xff, 0}}, 0, "is not a ZooKeeper"},
		{"negative greeting", [][]byte{{0xff, 0xff, 0xff, 0xff, 0}}, 0, "is not a ZooKeeper"},
		{"text", [][]byte{[]byte("this is no ZooKeeper")}, 0, `it sent "this"`},
		{"short greeting", [][]byte{packet(int32(0), int32(0))}, 0, "is not a ZooKeeper"},
		{"password of 2 GB", [][]byte{packet(int32(0), int32(30_000), session, int32(0x7fffffff), int64(0))}, 0, "a password of 2147483647 bytes"},
		{"session without time", [][]byte{packet(int32(0), int32(0), session, "password")}, 0, "a session of 0s"},
		{"negative session", [][]byte{packet(int32(0), int32(-5), session, "password")}, 0, "a session of -5ms"},
		{"expired session", [][]byte{packet(int32(0), int32(0), int64(0), "password")}, 0, ""},
		{"negative packet", [][]byte{greeting, {0xff, 0xff, 0xff, 0xff}}, 0, "a packet of -1 bytes"},
		{"packet of 2 GB", [][]byte{greeting, {0x7f, 0xff, 0xff, 0xff}}, 0, "a packet of 2147483647 bytes"},
		{"short packet", [][]byte{greeting, packet(int32(5), int64(1))}, 0, "a packet of 12 bytes"},
		{"no data", [][]byte{greeting, header(5)}, opSync, ""},
		{"event", [][]byte{greeting, packet(int32(-1), int64(-1), int32(0), int32(2), int32(3), "/a")}, 0, ""},

		{"list", [][]byte{greeting, names(1000)}, opGetChildren2, ""},
		{"empty list", [][]byte{greeting, header(5, int32(0), stat)}, opGetChildren2, ""},
		{"list of 4 billion", [][]byte{greeting, header(5, int32(-1), stat)}, opGetChildren2, "a list of 4294967295 names"},
		{"list without names", [][]byte{greeting, header(5, int32(100), stat)}, opGetChildren2, "a list of 100 names in a packet with 68 bytes more"},
		{"list without a number", [][]byte{greeting, header(5, int8(1))}, opGetChildren2, ""},
		{"list of a node that is gone", [][]byte{greeting, packet(int32(5), int64(1), int32(-101), int32(-1))}, opGetChildren2, ""},
		{"long list", [][]byte{greeting, names(800_000)}, opGetChildren2, "replies of 16800088 bytes or more"},
		{"data", [][]byte{greeting, header(5, "data", stat)}, opGetData, ""},
		{"null", [][]byte{greeting, header(5, int32(-1), stat)}, opGetData, ""},
		{"data of 2 GB", [][]byte{greeting, header(5, int32(0x7fffffff), stat)}, opGetData, "data of 2147483647 bytes"},
		{"transaction", [][]byte{greeting, header(5, int32(1), int8(0), int32(0), "/a", int32(5), int8(0), int32(0), stat, int32(2), int8(0), int32(0), int32(-1), int8(1), int32(-1))}, opMulti, ""},
		{"transaction that failed", [][]byte{greeting, header(5, int32(-1), int8(0), int32(-101), int32(-101), int32(-1), int8(1), int32(-1))}, opMulti, ""},
		{"transaction without an end", [][]byte{greeting, header(5, int32(2), int8(0), int32(0))}, opMulti, "is not complete"},
		{"cut transaction", [][]byte{greeting, header(5, int32(2), int8(0), int32(0), int32(2))}, opMulti, "is not complete"},
		{"transaction with a long path", [][]byte{greeting, header(5, int32(1), int8(0), int32(0), int32(-1))}, opMulti, "is not complete"},
		{"endless transaction", [][]byte{greeting, header(5, bytes.Repeat([]byte{0, 0, 0, 2, 0, 0, 0, 0, 0}, 3000))}, opMulti, "is not complete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := bytes.Join(c.answer, nil)
			whole, l, err := exchange(answer, len(answer), ask(4, opSync), ask(5, c.op))
			refusal := new(*bounded.Refusal)
			switch {
			case c.reason == "" && (err != nil || !bytes.Equal(whole, answer)):
				t.Fatalf("got %d of %d bytes and %v", len(whole), len(answer), err)
			case c.reason != "" && (!errors.As(err, refusal) || !strings.Contains(err.Error(), c.reason)):
				t.Fatalf("got %v, want a refusal with %q", err, c.reason)
			case c.reason != "" && l.session == 0 && !errors.Is(l.endedBy(), driver.ErrNotExecuted):
				t.Errorf("the session ended with %v", l.endedBy())
			}
			if len(answer) > 1<<16 {
				return
			}
			for _, part := range []int{1, 2, 7} {
				if read, _, failed := exchange(answer, part, ask(4, opSync), ask(5, c.op)); (failed == nil) != (err == nil) || len(read) > len(whole) {
					t.Errorf("in parts of %d: got %d bytes and %v, want %d and %v", part, len(read), failed, len(whole), err)
				}
			}
		})
	}
}

// Replies are counted together only while their requests are under way.
func TestLongRepliesInTurn(t *testing.T) {
	greeting := packet(int32(0), int32(30_000), session, "0123456789012345", int8(0))
	long := bytes.Repeat([]byte{0}, 3<<20)
	var all, requests [][]byte
	for i := range int32(8) {
		requests = append(requests, packet(i, int32(opSync), "/"))
		all = append(all, header(i, long), packet(int32(-2), int64(1), int32(0)))
	}
	answer := bytes.Join(append([][]byte{greeting}, all...), nil)
	if _, _, err := exchange(answer, len(answer), requests...); err == nil || !strings.Contains(err.Error(), "under way together") {
		t.Errorf("got %v for 24 MB at once, want a refusal", err)
	}
	s := &script{at: 1 << 20}
	w := &wire{Conn: s, in: bufio.NewReader(s), link: &link{nodes: make(map[nodeKey]*node)}}
	read := func(b []byte) {
		t.Helper()
		s.arrives = b
		if _, err := io.CopyN(io.Discard, w, int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	read(greeting)
	for i, r := range slices.All(requests) {
		if _, err := w.Write(r); err != nil {
			t.Fatal(err)
		}
		read(all[2*i])
	}
}

// A call says why there is no connection, if the server sent what no ZooKeeper sends.
func TestCallsNameTheRefusal(t *testing.T) {
	l := &link{servers: 2, quit: make(chan struct{}), ready: make(chan struct{})}
	close(l.ready)
	why := &bounded.Refusal{Addr: "192.0.2.1:2181", Reason: "it sent what it must not"}
	l.refuse(why)
	if err := l.usable(); !errors.Is(err, errDisconnected) || !strings.Contains(err.Error(), why.Reason) {
		t.Errorf("got %v, want that it is not connected, and why", err)
	}
	if l.endedBy() != nil {
		t.Errorf("the session ended with %v, although the other server was not tried", l.endedBy())
	}
	l.refuse(why)
	if err := l.endedBy(); !errors.Is(err, driver.ErrNotExecuted) || !errors.As(err, new(*bounded.Refusal)) {
		t.Errorf("the session ended with %v, want the refusal", err)
	}
}

// FuzzPackets shows that what a server sends is refused or not in whatever parts it arrives, and
// that nothing of it ends the program.
func FuzzPackets(f *testing.F) {
	greeting := packet(int32(0), int32(30_000), session, "password")
	for _, answer := range [][]byte{
		nil, header(5, int32(1), "a"), header(5, int32(-1)), header(5, int32(2), int8(0), int32(0), int32(-1), int8(1), int32(-1)),
		packet(int32(-1), int64(-1), int32(0), int32(2), int32(3), "/a"),
		{0xff, 0xff, 0xff, 0xff},
	} {
		for _, op := range []int32{opGetData, opGetChildren2, opMulti, opSync} {
			f.Add(append(slices.Clone(greeting), answer...), op, uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, op int32, part uint8) {
		request := packet(int32(5), op, "/a")
		whole, _, err := exchange(answer, len(answer), request)
		some, _, failed := exchange(answer, 1+int(part), request)
		if (err == nil) != (failed == nil) || err == nil && !bytes.Equal(some, whole) || len(some) > len(whole) {
			t.Fatalf("got %d bytes and %v at once, %d and %v in parts", len(whole), err, len(some), failed)
		}
	})
}

const opSync = 9
