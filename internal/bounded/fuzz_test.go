package bounded

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// FuzzRedis shows that the answer of a server is refused at the same byte in whatever parts it
// arrives, and that a client that reads as rueidis does can read what was not refused: without a
// negative length, without more memory than the limit, and without deep recursion.
func FuzzRedis(f *testing.F) {
	hello := commands(hello)
	for _, answer := range []string{
		ok3, "*2\r\n+a\r\n$1\r\nx\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n", "*-1\r\n", "$-1\r\n", "*-5\r\n", "$9223372036854775807\r\n", "*1\r\n*1\r\n*1\r\n_\r\n",
		">3\r\n+subscribe\r\n+a\r\n:1\r\n", "-MOVED 1 h:1\r\n", "%1\r\n#t\r\n,1.5\r\n", "=5\r\ntxt:a\r\n", "!3\r\nASK\r\n", "(1\r\n~0\r\n",
	} {
		f.Add(hello+commands("SUBSCRIBE a", "UNSUBSCRIBE a", "PING", "GET a", "ROLE"), answer+answer, uint8(1))
		f.Add(hello, answer, uint8(3))
		f.Add("PING\r\n", answer, uint8(2))
	}
	f.Fuzz(func(t *testing.T, sent, answer string, part uint8) {
		whole, err := exchange(sent, answer, 0)
		some, failed := exchange(sent, answer, 1+int(part))
		if whole != some || (err == nil) != (failed == nil) {
			t.Fatalf("got %q and %v at once, %q and %v in parts of %d", whole, err, some, failed, 1+part)
		}
		for r := bufio.NewReaderSize(bytes.NewReader([]byte(whole)), 1<<16); ; {
			left := mostAnswer
			if err := readElement(r, 0, &left); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return
			} else if err != nil {
				t.Fatalf("a client cannot bear %q: %v", whole, err)
			}
		}
	})
}

// readElement reads as rueidis 1.0.79 does, and returns an error where that would panic or take
// more memory than is left.
func readElement(r *bufio.Reader, depth int, left *int) error {
	kind, err := r.ReadByte()
	if err != nil {
		return err
	}
	if depth > deepest {
		return errors.New("too deep")
	}
	switch kind {
	case '+', '-', ',', '(':
		line, err := r.ReadBytes('\n')
		return take(left, len(line), err)
	case '_':
		_, err := r.Discard(2)
		return err
	case '#':
		_, err := r.Discard(3)
		return err
	case ':', '$', '=', '!', '*', '~', '>', '%', '|':
	default:
		return fmt.Errorf("kind %q", kind)
	}
	line, err := r.ReadSlice('\n')
	if err != nil || kind == ':' {
		return err
	}
	n, err := strconv.Atoi(string(bytes.TrimSuffix(line, []byte("\r\n"))))
	switch {
	case err != nil:
		return err
	case n == -1 && (kind == '$' || kind == '*'):
		return nil
	case n < 0:
		return fmt.Errorf("length %d", n)
	case kind == '$' || kind == '=' || kind == '!':
		if err := take(left, n, nil); err != nil {
			return err
		}
		_, err := r.Discard(n + 2)
		return err
	case kind == '%' || kind == '|':
		n *= 2
	}
	if err := take(left, n*40, nil); err != nil { // 40 is the size of an element in rueidis
		return err
	}
	for range n {
		if err := readElement(r, depth+1, left); err != nil {
			return err
		}
	}
	if kind == '|' { // the element follows
		return readElement(r, depth, left)
	}
	return nil
}

func take(left *int, n int, err error) error {
	if *left -= n; err == nil && *left < 0 {
		return errors.New("too much memory")
	}
	return err
}

// FuzzPostgres and FuzzMySQL show that an answer is refused or not, in whatever parts it arrives.
func FuzzPostgres(f *testing.F) {
	f.Add("R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I", true, uint8(1))
	f.Add("S\x00\x00\x00\x08a\x00b\x00Z\x00\x00\x00\x05IA\x00\x00\x00\x04D\x00\x00\x00\x04S\x00\x00\x00\x04", true, uint8(2))
	f.Add("N\xff\xff\xff\xff", false, uint8(1))
	f.Add("HTTP/1.1", false, uint8(1))
	f.Fuzz(func(t *testing.T, answer string, busy bool, part uint8) {
		read := func(part int) (string, error) {
			p := Postgres(&peer{rest: answer, part: part}, io.Discard)
			if busy {
				_, _ = p.Write(nil)
			}
			all, err := io.ReadAll(p)
			return string(all), err
		}
		same(t, part, read)
	})
}

// FuzzMySQL is described at FuzzPostgres.
func FuzzMySQL(f *testing.F) {
	greeting := "\x4a\x00\x00\x00\x0a8.0.36\x00" + strings.Repeat("x", 66)
	f.Add(greeting, "", "", uint8(1))
	f.Add(greeting, "\x05\x00\x00\x00\x03SELECT", "\x01\x00\x00\x01\x02", uint8(1))
	f.Add(greeting, "\x05\x00\x00\x00\x03SELECT", "\x09\x00\x00\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff", uint8(2))
	f.Add("HTTP/1.1", "", "", uint8(1))
	f.Fuzz(func(t *testing.T, greeting, sent, answer string, part uint8) {
		read := func(part int) (string, error) {
			p := &peer{rest: greeting, part: part}
			c := MySQL(p, func(*Refusal) {})
			first, err := io.ReadAll(c)
			if err != nil {
				return string(first), err
			}
			if _, err := c.Write([]byte(sent)); err != nil {
				return "", err
			}
			p.rest = answer
			second, err := io.ReadAll(c)
			return string(first) + string(second), err
		}
		same(t, part, read)
	})
}

// same compares what read returns for an answer at once and in parts.
func same(t *testing.T, part uint8, read func(part int) (string, error)) {
	whole, err := read(0)
	if some, failed := read(1 + int(part)); whole != some || (err == nil) != (failed == nil) {
		t.Fatalf("got %q and %v at once, %q and %v in parts of %d", whole, err, some, failed, 1+part)
	}
}

// A connection that is closed while it is read releases its memory, and leaves nothing behind.
func TestRedisClosedWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := new(Memory)
		client, server := net.Pipe()
		c := Redis(client, memory)
		go func() {
			_, _ = io.Copy(io.Discard, c)
		}()
		go func() {
			_, _ = io.CopyN(io.Discard, server, int64(len(commands("GET a"))))
			_, _ = io.WriteString(server, "$9000000\r\nxx")
		}()
		if _, err := io.WriteString(c, commands("GET a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if memory.taken.Load() != 9000000 {
			t.Errorf("%d bytes are counted, want 9000000", memory.taken.Load())
		}
		_ = c.Close()
		_ = server.Close()
		synctest.Wait()
		if left := memory.taken.Load(); left != 0 {
			t.Errorf("%d bytes are still counted", left)
		}
	})
}
