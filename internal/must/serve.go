package must

import (
	"net"
	"sync"
	"testing"
)

// Serve starts a server that calls the function `handle` for each connection, in a goroutine,
// and then closes the connection. It returns the server's address. The server and its
// connections end when the test ends.
func Serve(t testing.TB, handle func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		over bool
		open = map[net.Conn]bool{}
	)
	admit := func(conn net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		if open[conn] = true; over {
			conn.Close()
		}
		return !over
	}
	leave := func(conn net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		delete(open, conn)
		conn.Close()
	}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil || !admit(conn) {
				return
			}
			all.Go(func() {
				defer leave(conn)
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		over = true
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String()
}
