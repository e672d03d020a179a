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
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	conn := dial()
	send := func(b byte) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(limit time.Duration) ([]byte, error) {
		_ = conn.SetReadDeadline(time.Now().Add(limit))
		buf := make([]byte, 10)
		n, err := conn.Read(buf)
		return buf[:n], err
	}
	send(0)
	if got, err := answer(5 * time.Second); err != nil || !bytes.Equal(got, []byte{0}) || <-heard != 0 {
		t.Fatalf("got %v, %v, want the byte that was sent", got, err)
	}
	p.Blackhole(true)
	send(1)
	if got, err := answer(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) || len(heard) > 0 {
		t.Errorf("got %v, %v in a black hole, and the server heard %d", got, err, len(heard))
	}
	p.Blackhole(false)
	if got, err := answer(5 * time.Second); err != nil || !bytes.Equal(got, []byte{1}) || <-heard != 1 {
		t.Errorf("got %v, %v after it, want the byte that was sent", got, err)
	}
	p.BlackholeRequests(true)
	send(4)
	if got, err := answer(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) || len(heard) > 0 {
		t.Errorf("got %v, %v while requests do not arrive, and the server heard %d", got, err, len(heard))
	}
	p.BlackholeRequests(false)
	if got, err := answer(5 * time.Second); err != nil || !bytes.Equal(got, []byte{4}) || <-heard != 4 {
		t.Errorf("got %v, %v after it, want the byte that was sent", got, err)
	}
	p.BlackholeReplies(true)
	send(5)
	if got, err := answer(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) || <-heard != 5 {
		t.Errorf("got %v, %v while answers do not arrive, want that the server hears the byte", got, err)
	}
	p.BlackholeReplies(false)
	if got, err := answer(5 * time.Second); err != nil || !bytes.Equal(got, []byte{5}) {
		t.Errorf("got %v, %v after it, want the byte that was sent", got, err)
	}
	p.LoseReplies(true)
	send(2)
	if got, err := answer(5 * time.Second); !errors.Is(err, io.EOF) || <-heard != 2 {
		t.Errorf("got %v, %v, want the end of the connection", got, err)
	}
	p.LoseReplies(false)
	conn = dial()
	send(3)
	if got, err := answer(5 * time.Second); err != nil || !bytes.Equal(got, []byte{3}) {
		t.Errorf("got %v, %v on a new connection, want the byte that was sent", got, err)
	}
}
