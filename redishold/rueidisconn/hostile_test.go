package rueidisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/bounded"
	"github.com/holdfast-go/holdfast/redishold"
)

// hostileAnswers end a program that reads them with rueidis 1.0.79, by a panic or for lack of
// memory, in a goroutine in which the program cannot recover.
var hostileAnswers = map[string]string{
	"a negative list":           "*-5\r\n",
	"a negative string":         "$-77\r\n",
	"the longest list":          "*9223372036854775807\r\n",
	"a map of 2 billion":        "%2147483647\r\n",
	"nesting":                   strings.Repeat("*1\r\n", 1<<16),
	"a line":                    "-ERR " + strings.Repeat("x", 1<<20) + "\r\n",
	"replies without a command": strings.Repeat("+OK\r\n", 10),
	"a confirmation":            ">3\r\n" + bulk("subscribe") + bulk("a") + ":1\r\n",
}

// An answer that the client cannot bear is an error of the call, and not the end of the program.
// The next call gets a new connection.
func TestHostileAnswers(t *testing.T) {
	ca := newAuthority(t)
	certificate := ca.issue("127.0.0.1")
	for name, answer := range hostileAnswers {
		for _, secure := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " in TLS"}[secure], func(t *testing.T) {
				var hostile atomic.Bool
				say := func(command string) string {
					if strings.HasPrefix(command, "EVAL") {
						if hostile.Load() {
							return answer
						}
						return ":5\r\n"
					}
					return ""
				}
				url, config, o := "redis://", (*tls.Config)(nil), &Options{}
				if secure {
					url, config = "rediss://", &tls.Config{Certificates: []tls.Certificate{certificate}}
					o.TLS = &tls.Config{RootCAs: ca.roots()}
				}
				conn, err := Open(t.Context(), url+serve(t, config, say), o)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				call := redishold.Call{Script: redishold.NewScript("five", "return 5"), Keys: []string{"k"}}
				hostile.Store(true)
				r := conn.Do(t.Context(), call)[0]
				if refusal := new(*bounded.Refusal); !errors.As(r.Err, refusal) && r.Value == nil {
					t.Errorf("got %v, want a refusal", r.Err)
				}
				hostile.Store(false)
				await.Until(t, 10*time.Second, "a call to succeed", func() bool { return conn.Do(t.Context(), call)[0].Value == int64(5) })
			})
		}
	}
}

// At the first command, Open returns the reason.
func TestOpenOfHostileServer(t *testing.T) {
	for name, answer := range hostileAnswers {
		t.Run(name, func(t *testing.T) {
			conn, err := Open(t.Context(), "redis://"+serve(t, nil, func(string) string { return answer }), nil)
			if conn != nil {
				conn.Close()
			}
			if refusal := new(*bounded.Refusal); !errors.As(err, refusal) && !strings.HasPrefix(answer, "+OK") {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}

// FuzzHostileServer shows that a program survives whatever a server answers to calls and
// subscriptions.
func FuzzHostileServer(f *testing.F) {
	for _, answer := range hostileAnswers {
		if len(answer) < 1000 {
			f.Add(answer, uint8(1))
			f.Add(answer, uint8(4))
		}
	}
	f.Add(">3\r\n+unsubscribe\r\n+a\r\n:0\r\n-BUSY x\r\n-BUSY x\r\n", uint8(5))
	f.Add("-ERR x\r\n+y\r\n", uint8(5))
	f.Add(">3\r\n+message\r\n+a\r\n+b\r\n", uint8(4))
	f.Fuzz(func(t *testing.T, answer string, at uint8) {
		var commands atomic.Int64
		addr := serve(t, nil, func(command string) string {
			switch {
			case commands.Add(1)%6 == int64(at%6):
				return answer
			case strings.HasPrefix(command, "EVAL"):
				return ":5\r\n"
			case strings.HasPrefix(command, "SUBSCRIBE"):
				return ">3\r\n+subscribe\r\n+a\r\n:1\r\n"
			case strings.HasPrefix(command, "UNSUBSCRIBE"):
				return ">3\r\n+unsubscribe\r\n+a\r\n:0\r\n"
			}
			return ""
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		conn, err := Open(ctx, "redis://"+addr, &Options{PingTimeout: 50 * time.Millisecond, DialTimeout: 100 * time.Millisecond})
		if err != nil {
			return
		}
		defer conn.Close()
		call := redishold.Call{Script: redishold.NewScript("five", "return 5"), Keys: []string{"k"}}
		for range 2 {
			conn.Do(ctx, call, call)
			s, err := conn.Subscribe(ctx, redishold.Channel{Name: "a"}, func(redishold.Notice) {})
			if err == nil {
				s.Close()
			}
		}
	})
}
