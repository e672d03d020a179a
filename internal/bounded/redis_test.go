package bounded

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// peer is a server that sends a text, in parts of a size.
type peer struct {
	net.Conn
	rest   string
	part   int // 0 means as much as the reader takes
	closed bool
}

func (p *peer) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	if p.part > 0 {
		b = b[:min(p.part, len(b))]
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *peer) Write(b []byte) (int, error) {
	if p.closed {
		return 0, net.ErrClosed
	}
	return len(b), nil
}

func (p *peer) Close() error         { p.closed = true; return nil }
func (p *peer) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 6379} }

// command returns a command as clients send it.
func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// commands returns commands that are written with spaces between their words.
func commands(all ...string) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(command(strings.Fields(c)...))
	}
	return b.String()
}

// exchange sends the commands, and returns what the client reads of the answer, and the error.
func exchange(sent, answer string, part int) (read string, err error) {
	p := &peer{rest: answer, part: part}
	c := Redis(p, new(Memory))
	for len(sent) > 0 {
		n := len(sent)
		if part > 0 {
			n = min(part, n)
		}
		if _, err := c.Write([]byte(sent[:n])); err != nil {
			return "", err
		}
		sent = sent[n:]
	}
	all, err := io.ReadAll(c)
	if refusal := new(*Refusal); errors.As(err, refusal) {
		if _, failed := io.WriteString(c, "more"); !p.closed || !errors.As(failed, refusal) {
			return "", fmt.Errorf("the connection was not closed: %w", failed)
		}
	}
	return string(all), err
}

// endless returns a text that is longer than any limit.
func endless(part string) string { return strings.Repeat(part, (mostAnswer+1<<20)/len(part)) }

const (
	hello = "HELLO 3 SETNAME holdfast"
	ok3   = "%1\r\n$5\r\nproto\r\n:3\r\n"
)

// What no Redis sends is refused before the client can act on it, and the error says what it was.
func TestRedisRefuses(t *testing.T) {
	for _, c := range []struct{ name, sent, answer, reason string }{
		{"negative number of elements", hello, "*-5\r\n", "length of -5"},
		{"negative number of pairs", hello, "%-1\r\n", "length of -1"},
		{"negative number of attributes", hello, "|-1\r\n", "length of -1"},
		{"no message", hello, ">-1\r\n", "length of -1"},
		{"negative length", hello, "$-77\r\n", "length of -77"},
		{"longest length", hello, "$9223372036854775807\r\n", "9223372036854775807"},
		{"longest list", hello, "*9223372036854775807\r\n", "9223372036854775807"},
		{"number that overflows", hello, "$99999999999999999999\r\n", "99999999999999999999"},
		{"list of 2 billion", hello, "*2147483647\r\n", "2147483647"},
		{"map of 2 billion", hello, "%2147483647\r\n", "2147483647"},
		{"set of 2 billion", hello, "~2147483647\r\n", "2147483647"},
		{"string of 2 GB", hello, "$2147483647\r\n" + strings.Repeat("x", 100), "2147483647"},
		{"error of 2 GB", hello, "!2147483647\r\n", "2147483647"},
		{"list of a million", hello, "*1000000\r\n", "48000000 bytes or more"},
		{"attributes of a million", hello, "|500000\r\n", "48000000 bytes or more"},
		{"lists in lists", hello, strings.Repeat("*1\r\n", 1000), "deeper than 32"},
		{"large lists in lists", hello, strings.Repeat("*100000\r\n", 30), "bytes or more"},
		{"endless status", hello, "+" + strings.Repeat("x", 1<<18), "a line of"},
		{"endless error", hello, "-ERR " + strings.Repeat("x", 1<<18), "a line of"},
		{"endless number", hello, ":" + strings.Repeat("1", 1<<18), "none of RESP"},
		{"endless length", hello, "$" + strings.Repeat("1", 1<<18), "none of RESP"},
		{"endless elements", hello, "*300000\r\n" + endless("$1000\r\n"+strings.Repeat("x", 1000)+"\r\n"), "bytes or more"},
		{"endless attributes", hello, endless("|1\r\n+a\r\n+b\r\n"), "bytes or more"},
		{"many long replies at once", commands(hello, "GET a", "GET b", "GET c"), ok3 + strings.Repeat("$7000000\r\n"+strings.Repeat("x", 7000000)+"\r\n", 3), "bytes or more"},
		{"list without a length", hello, "*?\r\n", "none of RESP"},
		{"string without a length", hello, "$?\r\n", "none of RESP"},
		{"string that is longer", hello, "$2\r\nabc\r\n", "longer than announced"},
		{"null with a text", hello, "_XX$-5\r\n", "none of RESP"},
		{"nulls without lines", hello, "_XX_XX_XX", "none of RESP"},
		{"booleans without lines", hello, "#tXX#fXX", "none of RESP"},
		{"bool with a text", hello, "#tXX$-5\r\n", "none of RESP"},
		{"line without a carriage return", hello, "+OK\n", "none of RESP"},
		{"plus before a length", hello, "$+1\r\na\r\n", "none of RESP"},
		{"a website", hello, "HTTP/1.1 400 Bad Request\r\n", `not a Redis: it sent "HTTP/1.1 400 Bad Request`},
		{"message in a reply", hello, "*1\r\n>2\r\n+a\r\n+b\r\n", "message into a reply"},

		{"reply to nothing", "", "-ERR x\r\n", "no command asked for"},
		{"second reply", commands(hello), ok3 + strings.Repeat("-ERR x\r\n", 10), "no command asked for"},
		{"confirmation of nothing", commands(hello), ok3 + ">3\r\n+subscribe\r\n+a\r\n:1\r\n", "confirmed a subscription"},
		{"confirmation of another command", commands(hello, "GET a"), ok3 + ">3\r\n+subscribe\r\n+a\r\n:1\r\n", "confirmed a subscription"},
		{"one confirmation too many", commands(hello, "SUBSCRIBE a"), ok3 + strings.Repeat(">3\r\n+subscribe\r\n+a\r\n:1\r\n", 2), "confirmed a subscription"},
		{"confirmation in RESP2", commands("SUBSCRIBE a"), strings.Repeat("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", 2), "confirmed a subscription"},
		{"a reply to SUBSCRIBE", commands(hello, "SUBSCRIBE a"), ok3 + "+OK\r\n", "command that subscribes"},
		{"SUBSCRIBE in a transaction", commands(hello, "SUBSCRIBE a"), ok3 + "-QUEUED\r\n", "command that subscribes"},
		{"a reply to UNSUBSCRIBE", commands(hello, "UNSUBSCRIBE a", "PING"), ok3 + "+OK\r\n", "ends subscriptions"},
		{"UNSUBSCRIBE without a message", commands(hello, "UNSUBSCRIBE a", "PING"), ok3 + "+PONG\r\n", "ends subscriptions"},
		{"UNSUBSCRIBE while the server is busy", commands(hello, "UNSUBSCRIBE a", "PING"), ok3 + "-BUSY x\r\n-BUSY x\r\n", "ends subscriptions"},
		{"two errors after UNSUBSCRIBE", commands(hello, "UNSUBSCRIBE a", "PING"), ok3 + "-ERR x\r\n-ERR y\r\n", "than the one to PING"},
		{"a late 'ping'", commands(hello, "UNSUBSCRIBE a", "PING"), ok3 + "-ERR " + strings.Repeat("x", 300) + "'ping'\r\n", "ends subscriptions"},
		{"two replies after UNSUBSCRIBE", commands(hello, "UNSUBSCRIBE a", "PING"), ok3 + ">3\r\n+unsubscribe\r\n+a\r\n:0\r\n+PONG\r\n+PONG\r\n", "no command asked for"},

		{"ROLE without a role", commands(hello, "ROLE"), ok3 + "*0\r\n", "too few parts"},
		{"master without a port", commands(hello, "SENTINEL GET-MASTER-ADDR-BY-NAME m"), ok3 + "*1\r\n$1\r\nh\r\n", "too few parts"},
		{"redirection to nowhere", commands(hello, "GET a"), ok3 + "-MOVED 1\r\n", "redirection without an address"},
		{"redirection to nowhere, of rueidis", commands(hello, "GET a"), ok3 + "-ERR MOVED 1\r\n", "redirection without an address"},
		{"redirection as a string", commands(hello, "GET a"), ok3 + "!3\r\nASK\r\n", "redirection without an address"},
		{"redirection of a standalone server", commands(hello, "GET a"), ok3 + "-REDIRECT\r\n", "redirection without an address"},
		{"redirection in a list", commands(hello, "GET a"), ok3 + "*1\r\n-ASK 5\r\n", "redirection without an address"},
		{"event of a Sentinel", commands(hello, "SUBSCRIBE +sentinel"), ok3 + ">3\r\n+subscribe\r\n+x\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$9\r\n+sentinel\r\n$3\r\na b\r\n", "event of a Sentinel"},
		{"switch of a Sentinel", commands(hello), ok3 + ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$7\r\na b c d\r\n", "event of a Sentinel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.HasPrefix(c.sent, "*") && c.sent != "" {
				c.sent = commands(c.sent)
			}
			whole, err := exchange(c.sent, c.answer, 0)
			var refusal *Refusal
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Error(), c.reason) || refusal.Addr != "192.0.2.1:6379" {
				t.Fatalf("got the error %v after %d bytes, want one with %q", err, len(whole), c.reason)
			}
			if len(c.answer) > 1<<16 {
				return // in parts, the error may name another number
			}
			for _, part := range []int{1, 3, 7} {
				read, err := exchange(c.sent, c.answer, part)
				if refusal := new(*Refusal); read != whole || !errors.As(err, refusal) {
					t.Errorf("in parts of %d: got %q and %v, want %q and a refusal", part, read, err, whole)
				}
			}
		})
	}
}

// What a Redis sends reaches the client unchanged, in parts of any size.
func TestRedisPassesOn(t *testing.T) {
	const (
		subscribed   = ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
		unsubscribed = ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"
		gone         = ">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n"
		news         = ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"
		old          = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
		oldNews      = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"
		oldEnd       = "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"
	)
	deep := strings.Repeat("*1\r\n", 32) + ":1\r\n"
	for _, c := range []struct{ name, sent, answer string }{
		{"every kind of element", commands(hello), "*12\r\n+a\r\n-ERR b\r\n:-5\r\n$2\r\n\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n(123456789012345678901234567890\r\n=5\r\ntxt:a\r\n"},
		{"lists", commands(hello), "%2\r\n+a\r\n~2\r\n:1\r\n:2\r\n+b\r\n*0\r\n"},
		{"attributes", commands(hello, "GET a"), "|1\r\n+a\r\n*1\r\n:1\r\n%0\r\n*2\r\n|0\r\n+x\r\n|1\r\n+a\r\n+b\r\n+y\r\n"},
		{"deep lists", commands(hello), deep},
		{"long reply", commands(hello), "$15000000\r\n" + strings.Repeat("x", 15000000) + "\r\n"},
		{"slots of a cluster that is fragmented", commands(hello), "*16384\r\n" + strings.Repeat("*4\r\n:1\r\n:1\r\n*4\r\n$9\r\n127.0.0.1\r\n:1\r\n$2\r\nid\r\n*0\r\n*4\r\n$9\r\n127.0.0.1\r\n:1\r\n$2\r\nid\r\n*0\r\n", 16384)},
		{"long replies one after the other", "", ""}, // see below
		{"redirections", commands(hello, "GET a", "GET b"), ok3 + "-MOVED 1 h:1\r\n-ASK 1 h:1\r\n"},
		{"messages between replies", commands(hello, "SUBSCRIBE a", "GET a", "GET a"), ok3 + subscribed + news + "$1\r\nx\r\n" + news + "_\r\n" + news},
		{"two channels", commands(hello, "SUBSCRIBE a b", "GET a"), ok3 + subscribed + subscribed + "_\r\n"},
		{"refused subscription", commands(hello, "SUBSCRIBE a", "GET a"), ok3 + "-NOPERM no\r\n_\r\n"},
		{"end of a subscription", commands(hello, "SUBSCRIBE a", "UNSUBSCRIBE a", "PING", "GET a"), ok3 + subscribed + unsubscribed + "+PONG\r\n_\r\n"},
		{"end of all subscriptions", commands(hello, "UNSUBSCRIBE", "PING", "PUNSUBSCRIBE", "PING"), ok3 + unsubscribed + unsubscribed + "+PONG\r\n>3\r\n+punsubscribe\r\n_\r\n:0\r\n+PONG\r\n"},
		{"refused end", commands(hello, "UNSUBSCRIBE a", "PING", "GET a"), ok3 + "-NOPERM no\r\n+PONG\r\n_\r\n"},
		{"refused PING", commands(hello, "UNSUBSCRIBE a", "PING", "GET a"), ok3 + unsubscribed + "-NOPERM User u has no permissions to run the 'ping' command\r\n_\r\n"},
		{"slots that moved", commands(hello, "SSUBSCRIBE a"), ok3 + ">3\r\n+ssubscribe\r\n+a\r\n:1\r\n" + gone},
		{"RESP2", commands("HELLO 2", "SUBSCRIBE a b", "PING", "UNSUBSCRIBE a", "PING"), "-ERR unknown command\r\n" + old + oldNews + old + "*2\r\n$4\r\npong\r\n$0\r\n\r\n" + oldEnd + "*2\r\n$4\r\npong\r\n$0\r\n\r\n" + oldNews},
		{"lists in RESP2", commands("HELLO 2", "EVAL x"), "*2\r\n+proto\r\n:2\r\n" + oldNews},
		{"master", commands(hello, "ROLE", "SENTINEL GET-MASTER-ADDR-BY-NAME m", "SENTINEL GET-MASTER-ADDR-BY-NAME m"), ok3 + "*3\r\n+master\r\n:1\r\n*0\r\n*2\r\n+h\r\n+1\r\n*-1\r\n"},
		{"events of a Sentinel", commands(hello), ok3 + ">3\r\n+message\r\n+\r\n+\r\n>3\r\n$7\r\nmessage\r\n$9\r\n+sentinel\r\n$7\r\na b c d\r\n>4\r\n+pmessage\r\n+*\r\n+a\r\n+b\r\n"},
		{"another client", "PING\r\n", "+PONG\r\n+OK\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, part := range []int{0, 1, 2, 5} {
				if len(c.answer) > 1<<20 && part > 0 {
					continue
				}
				read, err := exchange(c.sent, c.answer, part)
				if err != nil || read != c.answer {
					t.Fatalf("in parts of %d: got %d of %d bytes and %v", part, len(read), len(c.answer), err)
				}
			}
		})
	}
}

// The limit is for replies that are under way together. What comes later does not add to it.
func TestRedisForgetsReplies(t *testing.T) {
	p := &peer{}
	memory := new(Memory)
	c := Redis(p, memory)
	long := "$6000000\r\n" + strings.Repeat("x", 6000000) + "\r\n"
	message := ">3\r\n+message\r\n+a\r\n" + long
	for range 5 {
		if _, err := io.WriteString(c, commands("GET a", "GET b")); err != nil {
			t.Fatal(err)
		}
		p.rest = long + message + message + message + long
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatal(err)
		}
	}
	if left := memory.taken.Load(); left != 0 {
		t.Errorf("%d bytes are counted although no reply is missing", left)
	}
}

// The connections of a client share a limit, and a connection that ends releases its part.
func TestRedisSharesMemory(t *testing.T) {
	memory := new(Memory)
	begin := func() net.Conn {
		c := Redis(&peer{rest: "$15000000\r\nx"}, memory)
		if _, err := io.WriteString(c, commands("GET a")); err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := begin(), begin()
	for _, c := range []net.Conn{one, two} {
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadAll(begin()); err == nil || !strings.Contains(err.Error(), "all connections") {
		t.Errorf("got %v, want a refusal", err)
	}
	_ = one.Close()
	if _, err := io.ReadAll(begin()); err != nil {
		t.Errorf("got %v after a connection was closed", err)
	}
}
