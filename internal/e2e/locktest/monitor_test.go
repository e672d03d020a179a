package locktest

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// command is a line of Redis' MONITOR stream: one command, as it was executed.
type command struct {
	at   float64  // the server's clock, milliseconds
	args []string // the first in lower case
	lua  bool     // a script ran it
}

// monitor collects what scripts execute, in the order of execution. The function
// that it returns ends that.
func monitor(s *subject) func() []command {
	s.Helper()
	conn, err := net.Dial("tcp", s.server.Addr())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReader(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		s.Fatal(err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
		s.Fatalf("MONITOR: %q, %v", line, err)
	}
	type result struct {
		commands []command
		err      error
	}
	const end = "end of the run"
	done := make(chan result, 1)
	go func() {
		var r result
		for {
			line, err := in.ReadString('\n')
			if err != nil || strings.Contains(line, end) {
				r.err = err
				break
			}
			if c, ok := parseCommand(line); ok && c.lua {
				r.commands = append(r.commands, c)
			}
		}
		done <- r
	}()
	return func() []command {
		s.server.Do("ECHO", end)
		r := <-done
		_ = conn.Close()
		if r.err != nil {
			s.Fatalf("MONITOR ended: %v", r.err)
		}
		return r.commands
	}
}

// parseCommand reads one line, and is true if it is a command:
//
//	+1790000000.123456 [0 lua] "HSET" "stock" "owner" "1"
func parseCommand(line string) (command, bool) {
	head, rest, found := strings.Cut(strings.TrimSpace(line), "] ")
	clock, from, by := strings.Cut(head, " [0 ")
	if !found || !by || !strings.HasPrefix(clock, "+") {
		return command{}, false
	}
	seconds, err := strconv.ParseFloat(clock[1:], 64)
	if err != nil {
		return command{}, false
	}
	c := command{at: seconds * 1000, lua: from == "lua"}
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return command{}, false
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return command{}, false
		}
		c.args = append(c.args, arg)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	c.args[0] = strings.ToLower(c.args[0])
	return c, true
}

// fairReplay is a fair lock as the commands on its keys make it.
type fairReplay struct {
	lock, queue, alive string

	waiting []string
	ends    map[string]float64 // when a waiter counts as dead
	holder  string
	granted map[string]bool

	grants, queued, gaveUp, dropped int
	failure                         error // the first violation
}

func newFairReplay(name string) *fairReplay {
	return &fairReplay{
		lock: name, queue: "redisson_lock_queue:{" + name + "}", alive: "holdfast:fair:{" + name + "}",
		ends: map[string]float64{}, granted: map[string]bool{},
	}
}

func (r *fairReplay) wrong(format string, args ...any) {
	if r.failure == nil {
		r.failure = fmt.Errorf(format, args...)
	}
}

func (r *fairReplay) run(commands []command) {
	for _, c := range commands {
		if len(c.args) < 2 {
			continue
		}
		switch c.args[1] {
		case r.lock:
			r.onLock(c)
		case r.queue:
			r.onQueue(c)
		case r.alive:
			r.onAlive(c)
		}
	}
}

// onLock sees grants: each must go to the head of the queue, or find it empty.
func (r *fairReplay) onLock(c command) {
	switch c.args[0] {
	case "hset":
		owner := c.args[2]
		if r.granted[owner] {
			return // an answer that was asked for again
		}
		if r.holder != "" {
			r.wrong("%.3f: %s got the lock while %s held it", c.at, owner, r.holder)
		}
		if len(r.waiting) > 0 && r.waiting[0] != owner {
			r.wrong("%.3f: %s got the lock, but the queue was %q", c.at, owner, r.waiting)
		}
		r.granted[owner], r.holder = true, owner
		r.grants++
	case "hdel":
		if slices.Contains(c.args[2:], r.holder) {
			r.holder = ""
		}
	case "del", "unlink":
		r.holder = ""
	}
}

// onQueue sees the waiters. A waiter that is taken off without a grant gave up, or was
// dropped, which may only happen to the dead.
func (r *fairReplay) onQueue(c command) {
	switch c.args[0] {
	case "rpush":
		owner := c.args[2]
		for _, w := range r.waiting {
			if w == owner {
				r.wrong("%.3f: %s queued up twice", c.at, owner)
			}
		}
		if r.granted[owner] {
			r.wrong("%.3f: %s queued up after its grant", c.at, owner)
		}
		r.waiting = append(r.waiting, owner)
		r.queued++
	case "lpush", "linsert", "lset":
		r.wrong("%.3f: somebody jumped the queue: %q", c.at, c.args)
	case "lrem":
		for i, w := range r.waiting {
			if w == c.args[3] {
				r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
				if !r.granted[w] {
					r.gaveUp++
				}
				break
			}
		}
	case "lpop":
		if len(r.waiting) == 0 {
			return
		}
		head := r.waiting[0]
		if r.ends[head] > c.at+1 {
			r.wrong("%.3f: %s was dropped, but it is alive until %.3f", c.at, head, r.ends[head])
		}
		r.waiting = r.waiting[1:]
		r.dropped++
	}
}

func (r *fairReplay) onAlive(c command) {
	switch c.args[0] {
	case "zadd":
		score, err := strconv.ParseFloat(c.args[len(c.args)-2], 64)
		if err != nil {
			r.wrong("%.3f: %q: %v", c.at, c.args, err)
		}
		r.ends[c.args[len(c.args)-1]] = score
	case "zrem":
		delete(r.ends, c.args[2])
	}
}

// over reports the first violation, or what is left at the end.
func (r *fairReplay) over() error {
	if r.failure == nil && (len(r.waiting) > 0 || len(r.ends) > 0 || r.holder != "") {
		return fmt.Errorf("at the end: holder %q, queue %q, alive %v", r.holder, r.waiting, r.ends)
	}
	return r.failure
}

// The replay accepts what is fair and finds what is not.
func TestReplayOfFairLock(t *testing.T) {
	const head = `+1790000000.5 [0 lua] `
	on := func(verb, args string) string { return head + `"` + verb + `" ` + args }
	queue := func(o string) string { return on("RPUSH", `"redisson_lock_queue:{a}" "`+o+`"`) }
	unqueue := func(o string) string { return on("LREM", `"redisson_lock_queue:{a}" "0" "`+o+`"`) }
	grant := func(o string) string { return on("HSET", `"a" "`+o+`" "1"`) }
	alive := func(o string, ms int) string {
		return on("ZADD", fmt.Sprintf(`"holdfast:fair:{a}" "%d" "%s"`, ms, o))
	}
	release := func(o string) string { return on("HDEL", `"a" "`+o+`"`) }
	free, drop := on("DEL", `"a"`), on("LPOP", `"redisson_lock_queue:{a}"`)
	forget := func(o string) string { return on("ZREM", `"holdfast:fair:{a}" "`+o+`"`) }
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"in turn":          {[]string{queue("x"), queue("y"), grant("x"), unqueue("x"), free, grant("y"), unqueue("y"), free}, ""},
		"without a queue":  {[]string{grant("x"), free, grant("y"), grant("y"), free}, ""},
		"one gave up":      {[]string{queue("x"), queue("y"), unqueue("x"), grant("y"), unqueue("y"), free}, ""},
		"a dead one":       {[]string{queue("x"), alive("x", 1_789_999_999_000), queue("y"), drop, forget("x"), grant("y"), unqueue("y"), free}, ""},
		"overtaken":        {[]string{queue("x"), queue("y"), grant("y")}, "but the queue was"},
		"no place at all":  {[]string{queue("x"), grant("z")}, "but the queue was"},
		"twice":            {[]string{queue("x"), queue("x")}, "twice"},
		"released":         {[]string{grant("x"), release("x"), grant("y"), release("y")}, ""},
		"not its own":      {[]string{grant("x"), release("y"), grant("y")}, "held it"},
		"two holders":      {[]string{grant("x"), grant("y")}, "held it"},
		"a live one":       {[]string{queue("x"), alive("x", 1_790_000_001_000), drop}, "is alive"},
		"left in the list": {[]string{queue("x")}, "at the end"},
		"left in the set":  {[]string{alive("x", 1_790_000_001_000)}, "at the end"},
	} {
		t.Run(name, func(t *testing.T) {
			var commands []command
			for _, line := range test.lines {
				c, ok := parseCommand(line + "\r\n")
				if !ok {
					t.Fatalf("cannot read %q", line)
				}
				commands = append(commands, c)
			}
			r := newFairReplay("a")
			r.run(commands)
			if err := r.over(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
