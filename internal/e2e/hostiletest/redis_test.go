package hostiletest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"
)

// redis is a server that answers as a Redis without keys does, except for some commands. A command
// is its first word, or its first two.
type redis struct {
	replies map[string]string // in place of the usual replies
	plays   map[string]play   // these end the usual conversation
}

func (r redis) speak(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil { // it is no command of a client for Redis
			_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
			return
		}
		name := strings.ToUpper(words[0])
		for _, command := range []string{name, strings.ToUpper(strings.Join(words[:min(len(words), 2)], " "))} {
			if play := r.plays[command]; play != nil {
				play(conn)
				return
			}
			if r.replies[command] != "" {
				name = command
			}
		}
		reply, ok := r.replies[name]
		if !ok {
			reply = usual(name)
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		words[i] = string(b[:size])
	}
	return words, nil
}

// usual returns the reply of a Redis without keys.
func usual(name string) string {
	switch name {
	case "HELLO":
		return "%7\r\n+server\r\n+redis\r\n+version\r\n+7.2.0\r\n+proto\r\n:3\r\n+id\r\n:1\r\n+mode\r\n+standalone\r\n+role\r\n+master\r\n+modules\r\n*0\r\n"
	case "PING":
		return "+PONG\r\n"
	case "CLIENT":
		return "+OK\r\n"
	case "ROLE":
		return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
	case "SUBSCRIBE":
		return strings.Repeat(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", 5)
	case "UNSUBSCRIBE":
		return ">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n"
	case "CLUSTER":
		return "-ERR This instance has cluster support disabled\r\n"
	case "SCAN":
		return "*2\r\n$1\r\n0\r\n*0\r\n"
	}
	return "-ERR unknown command '" + name + "'\r\n"
}

// hostile is an answer, and the text that the program must print.
type hostile struct {
	answer play
	text   string
}

// hostileRedis returns the answers of a hostile or a broken Redis.
func hostileRedis() map[string]hostile {
	const (
		length  = "it announced a length of "
		answers = "it announced answers of .*; the limit is 16777216 bytes"
	)
	return map[string]hostile{
		"negative list":        {says("*-5\r\n"), length + "-5"},
		"negative string":      {says("$-77\r\n"), length + "-77"},
		"negative map":         {says("%-1\r\n"), length + "-1"},
		"longest string":       {says("$9223372036854775807\r\n"), length + "9223372036854775807"},
		"longest list":         {says("*9223372036854775807\r\n"), length + "9223372036854775807"},
		"list of 2 billion":    {says("*2147483647\r\n"), length + "2147483647"},
		"map of 2 billion":     {says("%2147483647\r\n"), length + "2147483647"},
		"endless nesting":      {repeats("", "*1\r\n"), "deeper than 32"},
		"wide nesting":         {repeats("", "*300000\r\n"), answers},
		"endless status":       {repeats("+", "xxxxxxxxxxxxxxxx"), "a line of"},
		"endless error":        {repeats("-ERR ", "xxxxxxxxxxxxxxxx"), "a line of"},
		"endless string":       {repeats("$2147483647\r\n", "xxxxxxxxxxxxxxxx"), length + "2147483647"},
		"string of 16 MB":      {repeats("$16000000\r\n", "xxxxxxxxxxxxxxxx"), "longer than announced"},
		"list of 300,000":      {repeats("*300000\r\n", "$30\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n"), answers},
		"endless attributes":   {repeats("", "|1\r\n+a\r\n+b\r\n"), answers},
		"endless messages":     {repeats("", ">2\r\n+a\r\n+b\r\n"), "does not answer|no answer"},
		"10 errors":            {says(strings.Repeat("-ERR x\r\n", 10)), "x|no command asked for"},
		"10 statuses":          {says(strings.Repeat("+OK\r\n", 10)), "."},
		"endless errors":       {repeats("", "-ERR x\r\n"), "x|no command asked for"},
		"endless confirmation": {repeats("", ">3\r\n+subscribe\r\n+a\r\n:1\r\n"), "a subscription that no command asked for"},
		"redirection":          {says("-MOVED 1\r\n"), "a redirection without an address"},
		"no Redis":             {says("this is no Redis\r\n"), `is not a Redis: it sent "this is no Redis`},
		"endless text":         {repeats("", "AAAAAAAAAAAAAAAA"), `is not a Redis: it sent "AAAA`},
		"silence":              {says(""), "does not answer|no answer of"},
		"end":                  {func(net.Conn) {}, "EOF|closed|does not answer"},
	}
}

// listTime is how long the program may take for a list in these tests.
const listTime = 5 * time.Second

// later has the commands with which the program lists locks.
func later(answer play) map[string]play {
	return map[string]play{"SCAN": answer, "EVAL": answer, "EVALSHA": answer, "EVAL_RO": answer, "EVALSHA_RO": answer}
}

// Whatever a Redis answers to the first command or to a later one, the program ends in its time,
// with a text that says what was wrong, and without much memory.
func TestRedis(t *testing.T) {
	for name, c := range hostileRedis() {
		for stage, plays := range map[string]map[string]play{"first": {"HELLO": c.answer}, "later": later(c.answer)} {
			t.Run(name+"/"+stage, func(t *testing.T) {
				t.Parallel()
				s := serve(t, nil, redis{plays: plays}.speak)
				s.list(t, "redis://"+s.addr, c.text)
			})
		}
	}
}

// Inside of TLS, the same answers are refused.
func TestRedisWithTLS(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	for _, name := range []string{"negative list", "longest string", "wide nesting", "endless error", "endless confirmation"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := hostileRedis()[name]
			s := serve(t, config, redis{plays: later(c.answer)}.speak)
			s.list(t, "rediss://"+s.addr, c.text, "--insecure")
		})
	}
}

// A Sentinel and the master that it names are bounded as a single server is. What they say about
// other servers may lack parts that the client reads without a check.
func TestRedisSentinel(t *testing.T) {
	bad := says("*-5\r\n")
	for name, c := range map[string]struct {
		sentinel, master redis
		text             string
	}{
		"negative list":       {redis{plays: map[string]play{"SENTINEL": bad}}, redis{}, "length of -5"},
		"address of one part": {redis{replies: map[string]string{"SENTINEL GET-MASTER-ADDR-BY-NAME": "*1\r\n$1\r\nh\r\n"}}, redis{}, "too few parts"},
		"Sentinels":           {redis{plays: map[string]play{"SENTINEL SENTINELS": bad}}, redis{}, "length of -5"},
		"broken event": {redis{replies: map[string]string{
			"SUBSCRIBE": strings.Repeat(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", 5) + ">3\r\n$7\r\nmessage\r\n$9\r\n+sentinel\r\n$3\r\na b\r\n",
		}}, redis{}, ""},
		"event of another channel": {redis{replies: map[string]string{
			"SUBSCRIBE": strings.Repeat(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", 50),
		}}, redis{}, ""},
		"master without a role":       {redis{}, redis{replies: map[string]string{"ROLE": "*0\r\n"}}, "too few parts"},
		"master with a negative list": {redis{}, redis{plays: map[string]play{"ROLE": bad}}, "length of -5"},
		"master with a list":          {redis{}, redis{plays: later(bad)}, "length of -5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := serve(t, nil, c.master.speak)
			host, port, err := net.SplitHostPort(m.addr)
			if err != nil {
				t.Fatal(err)
			}
			replies := map[string]string{
				"SENTINEL GET-MASTER-ADDR-BY-NAME": fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port),
				"SENTINEL SENTINELS":               "*0\r\n",
			}
			maps.Copy(replies, c.sentinel.replies)
			s := serve(t, nil, redis{replies, c.sentinel.plays}.speak)
			s.list(t, "redis+sentinel://"+s.addr+"/m", c.text)
		})
	}
}

// The nodes of a cluster are bounded, too, also if there are more of them than the client can
// connect to.
func TestRedisCluster(t *testing.T) {
	var many strings.Builder
	many.WriteString("*16384\r\n")
	for i := range 16384 {
		fmt.Fprintf(&many, "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", i, i, 1+i)
	}
	all := func(port string) string {
		return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:" + port + "\r\n"
	}
	for name, c := range map[string]struct {
		slots string
		plays map[string]play
		text  string
	}{
		"negative list":   {"*-5\r\n", nil, "length of -5"},
		"no slots":        {"*0\r\n", nil, "no node serves any slot"},
		"broken ranges":   {"*3\r\n*0\r\n*3\r\n:0\r\n:99999\r\n*1\r\n+h\r\n*3\r\n:-5\r\n:99999\r\n*2\r\n+h\r\n:1\r\n", nil, "."},
		"16384 nodes":     {many.String(), nil, "."},
		"list":            {"", later(says("*-5\r\n")), "length of -5"},
		"redirection":     {"", later(says("-MOVED 1\r\n")), "redirection without an address"},
		"endless strings": {"", later(repeats("$16000000\r\n", "xxxxxxxxxxxxxxxx")), "longer than announced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := redis{plays: c.plays, replies: map[string]string{"CLUSTER": c.slots}}
			s := serve(t, nil, func(conn net.Conn) {
				_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
				if n := node; c.slots == "" {
					n.replies = map[string]string{"CLUSTER": all(port)}
					n.speak(conn)
				} else {
					n.speak(conn)
				}
			})
			s.list(t, "redis+cluster://"+s.addr, c.text)
		})
	}
}
