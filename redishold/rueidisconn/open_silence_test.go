package rueidisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// With Sentinels a server that has just been silent is not tried again at once: the
// second of two attempts in a row takes no time, and one that comes later is made.
func TestSilentServerIsNotTriedAgainAtOnce(t *testing.T) {
	accepts := func(context.Context, string, string) (net.Conn, error) {
		ours, _ := net.Pipe()
		return ours, nil
	}
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, connect := range map[string]func(context.Context, string, string) (net.Conn, error){"accepts": accepts, "does not even accept": hangs} {
		synctest.Test(t, func(t *testing.T) {
			made := 0
			transport := transport{open: t.Context(), silentServers: silentServers{until: make(map[string]time.Time)}, connect: func(ctx context.Context, network, addr string) (net.Conn, error) {
				made++
				return connect(ctx, network, addr)
			}}
			attempt := func() {
				conn, err := transport.dial(t.Context(), "a:1", &net.Dialer{Timeout: time.Second}, nil)
				if err != nil {
					if !neverSent(err) {
						t.Errorf("%s: error %v leaves open whether a call was sent", name, err)
					}
					return
				}
				_ = conn.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					t.Errorf("%s: it is not silent", name)
				}
				conn.Close()
			}
			began := time.Now()
			attempt()
			attempt()
			if took := time.Since(began); took != time.Second || made != 1 {
				t.Errorf("%s: %d attempts in %v, want 1 in 1s", name, made, took)
			}
			time.Sleep(silentFor)
			if attempt(); made != 2 {
				t.Errorf("%s: %d attempts after a while, want 2", name, made)
			}
		})
	}
}

// A server that sends something, or refuses, is dialled again at once.
func TestServerThatSpeaksIsTriedAgain(t *testing.T) {
	refused := errors.New("refused")
	for name, connect := range map[string]func(context.Context, string, string) (net.Conn, error){
		"speaks": func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.WriteString(theirs, "-LOADING\r\n")
				theirs.Close()
			}()
			return ours, nil
		},
		"closes": func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			theirs.Close()
			return ours, nil
		},
		"refuses": func(context.Context, string, string) (net.Conn, error) { return nil, refused },
	} {
		transport := transport{open: t.Context(), silentServers: silentServers{until: make(map[string]time.Time)}, connect: connect}
		for range 2 {
			conn, err := transport.dial(t.Context(), "a:1", &net.Dialer{Timeout: 5 * time.Second}, nil)
			if err == nil {
				_, _ = conn.Read(make([]byte, 64))
				conn.Close()
			} else if !errors.Is(err, refused) {
				t.Errorf("%s: got error %v", name, err)
			}
		}
	}
}
