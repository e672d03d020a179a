package delay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0))) // two proxies at once: see Run
	goleak.VerifyTestMain(m)
}

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // splice would wait for more bytes
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); wg.Wait() })
	return listener.Addr().String()
}

// free returns an address that nobody uses.
func free(t *testing.T) string {
	t.Helper()
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// through returns the address of a running proxy before a server.
func through(t *testing.T, server string, delay time.Duration) string {
	t.Helper()
	addr := free(t)
	p, err := Listen(addr, server, delay)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { p.Close(); wg.Wait() })
	return addr
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// trip sends a byte, and returns how long it took to come back.
func trip(t *testing.T, conn io.ReadWriter) time.Duration {
	t.Helper()
	begun := time.Now()
	if _, err := conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}

// No byte is early. How late it is depends on the machine, and is only logged.
func TestDelay(t *testing.T) {
	server := echo(t)
	direct := dial(t, server)
	for _, delay := range []time.Duration{150 * time.Microsecond, time.Millisecond} {
		conn := dial(t, through(t, server, delay))
		trip(t, conn)
		var took, plain []time.Duration
		for range 100 {
			took, plain = append(took, trip(t, conn)), append(plain, trip(t, direct))
		}
		slices.Sort(took)
		slices.Sort(plain)
		t.Logf("delay %v in each direction: a round trip takes %v, a direct one %v", delay, took[50], plain[50])
		if least := took[0]; least < 2*delay {
			t.Errorf("a round trip with delays of %v took %v", delay, least)
		}
	}
}

// Many bytes are on their way at once, in order, on several connections.
func TestBytesStayInOrder(t *testing.T) {
	addr := through(t, echo(t), time.Millisecond)
	var wg sync.WaitGroup
	for range 4 {
		conn, sent := dial(t, addr), random(3*window)
		wg.Go(func() { send(t, conn, sent) })
		wg.Go(func() { receive(t, conn, sent) })
	}
	wg.Wait()
}

// A client that does not read does not keep other connections from going on, and loses nothing.
func TestOneSideDoesNotRead(t *testing.T) {
	addr := through(t, echo(t), time.Millisecond)
	deaf, other := dial(t, addr), dial(t, addr)
	sent := random(32 * window) // more than all buffers hold
	var wg sync.WaitGroup
	wg.Go(func() { send(t, deaf, sent) })
	for range 200 {
		trip(t, other)
	}
	receive(t, deaf, sent)
	wg.Wait()
}

func random(size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

func send(t *testing.T, conn *net.TCPConn, b []byte) {
	if _, err := conn.Write(b); err != nil {
		t.Error(err)
	}
	_ = conn.CloseWrite()
}

func receive(t *testing.T, conn *net.TCPConn, want []byte) {
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes and error %v, want the %d bytes that were sent", len(got), err, len(want))
	}
}

// The end of one side is the end of the other.
func TestEnds(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	addr := through(t, listener.Addr().String(), time.Millisecond)
	for _, reset := range []bool{false, true} {
		for _, client := range []bool{true, false} {
			closer := dial(t, addr)
			accepted, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			other := accepted.(*net.TCPConn)
			if !client {
				closer, other = other, closer
			}
			if reset {
				_ = closer.SetLinger(0)
			}
			_ = closer.Close()
			if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("reset %v by the client %v: the other side got %v, want its end", reset, client, err)
			}
			_ = other.Close()
		}
	}
}

// A server that is not there ends the connection of the client.
func TestNoServer(t *testing.T) {
	conn := dial(t, through(t, free(t), 0))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Fatal("got a byte of no server")
	}
}
