package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that answers with what it is sent, and counts it.
func echo(t *testing.T) (addr string, heard chan byte) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	heard = make(chan byte, 100)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 1)
				for {
					if _, err := conn.Read(buf); err != nil {
						return
					}
					heard <- buf[0]
					if _, err := conn.Write(buf); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String(), heard
}

// A raw proxy passes bytes, holds them in a black hole, of one direction too, and loses answers with their
// connection after the server has heard the request.
func TestRaw(t *testing.T) {
	addr, heard := echo(t)
	p, err := RunRaw(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, test := range []struct {
		name  string
		fault func(on bool)
		heard bool  // while it is on
		err   error // of an answer meanwhile
		later bool  // the answer comes after it
	}{
		{"nothing", func(bool) {}, true, nil, false},
		{"black hole", p.Blackhole, false, os.ErrDeadlineExceeded, true},
		{"requests do not arrive", p.BlackholeRequests, false, os.ErrDeadlineExceeded, true},
		{"answers do not arrive", p.BlackholeReplies, true, os.ErrDeadlineExceeded, true},
		{"answers are lost", p.LoseReplies, true, io.EOF, false},
		{"nothing again", func(bool) {}, true, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			sent := byte(i)
			answer := func(limit time.Duration, want error) {
				t.Helper()
				_ = conn.SetReadDeadline(time.Now().Add(limit))
				buf := make([]byte, 10)
				if n, err := conn.Read(buf); !errors.Is(err, want) || want == nil && !bytes.Equal(buf[:n], []byte{sent}) {
					t.Fatalf("got %v, %v, want the byte that was sent, or %v", buf[:n], err, want)
				}
			}
			hears := func() {
				t.Helper()
				if got := <-heard; got != sent {
					t.Fatalf("the server heard %d, want %d", got, sent)
				}
			}
			test.fault(true)
			if _, err := conn.Write([]byte{sent}); err != nil {
				t.Fatal(err)
			}
			timeout := 5 * time.Second
			if errors.Is(test.err, os.ErrDeadlineExceeded) {
				timeout = 100 * time.Millisecond
			}
			answer(timeout, test.err)
			if test.heard {
				hears()
			} else if len(heard) > 0 {
				t.Fatal("the server heard the byte")
			}
			test.fault(false)
			if test.later {
				answer(5*time.Second, nil)
			}
			if !test.heard {
				hears()
			}
		})
	}
}
