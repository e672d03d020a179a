package conntest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// prompt is how soon a call has to return after its context has ended: on a busy
// machine, and well before any time of a library's own.
const prompt = 400 * time.Millisecond

// count is a script whose every execution shows.
const count = "return redis.call('INCR', KEYS[1])"

func replyText(err error) string {
	var reply *redishold.ReplyError
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Text
}

// unknown fails the test unless err leaves open whether the call was executed.
func unknown(t *env, err error) {
	t.Helper()
	if err == nil || errors.Is(err, driver.ErrNotExecuted) || replyText(err) != "" {
		t.Fatalf("got error %v, want an unknown outcome", err)
	}
}

func TestValues(t *testing.T) {
	each(t, func(e *env) {
		for source, want := range map[string]any{
			"return 42":                       int64(42),
			"return -1":                       int64(-1),
			"return 'text'":                   "text",
			"return redis.status_reply('OK')": "OK",
			"return nil":                      nil,
			"return false":                    nil,
			"return true":                     int64(1),
			"return ''":                       "",
			"return {}":                       []any{},
			"return {1, 'two', {3, false}}":   []any{int64(1), "two", []any{int64(3), nil}},
			"return ARGV[1]":                  "a\x00\xff",
			"return #KEYS .. KEYS[1]":         "1k",
		} {
			r := e.conn.Do(await.Context(e, 5*time.Second), call(source, "a\x00\xff"))
			if r[0].Err != nil || !reflect.DeepEqual(r[0].Value, want) {
				e.Errorf("%s: got %#v, error %v, want %#v", source, r[0].Value, r[0].Err, want)
			}
		}
		none := redishold.Call{Script: redishold.NewScript("test", "return #KEYS + #ARGV")}
		if r := e.conn.Do(await.Context(e, 5*time.Second), none); r[0].Value != int64(0) {
			e.Errorf("no keys: got %v, error %v, want 0", r[0].Value, r[0].Err)
		}
	})
}

func TestServerErrorIsReplyError(t *testing.T) {
	each(t, func(e *env) {
		for source, want := range map[string]string{
			"return redis.error_reply('CUSTOM words')": "CUSTOM words",
			"return redis.call('LPUSH', KEYS[1])":      "Wrong number of args",
			"not lua":                                  "Error compiling script",
		} {
			r := e.conn.Do(await.Context(e, 5*time.Second), call(source))
			if got := replyText(r[0].Err); !strings.Contains(got, want) {
				e.Errorf("%s: got error %v, want a ReplyError with %q", source, r[0].Err, want)
			}
		}
		for _, raw := range []string{"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica."} {
			e.proxy.On(faultproxy.Command("EVALSHA"), faultproxy.Reply("-"+raw+"\r\n"))
			r := e.conn.Do(await.Context(e, 5*time.Second), call(count))
			if got := replyText(r[0].Err); got != raw {
				e.Errorf("got error %v, want a ReplyError with %q", r[0].Err, raw)
			}
		}
	})
}

func TestUnknownScriptIsSentOnceMore(t *testing.T) {
	each(t, func(e *env) {
		for range 3 {
			e.server.FlushScripts()
			r := e.conn.Do(await.Context(e, 5*time.Second), call(count))
			if r[0].Err != nil {
				e.Fatalf("got error %v", r[0].Err)
			}
		}
		if got := e.server.String("GET", "k"); got != "3" {
			e.Errorf("executed %s times, want 3", got)
		}
	})
}

func TestManyCallsAreOnePipeline(t *testing.T) {
	each(t, func(e *env) {
		e.conn.Do(await.Context(e, 5*time.Second), call(count))
		e.server.Do("DEL", "k")
		hold := e.proxy.On(faultproxy.Script(redishold.NewScript("count", count).SHA()), faultproxy.HoldReply())
		defer hold.Release()
		done := make(chan []redishold.Result, 1)
		ctx := await.Context(e, 5*time.Second)
		go func() {
			done <- e.conn.Do(ctx, call(count), call("return redis.error_reply('NO good')"), call(count), call("return {1}"))
		}()
		hold.Wait(e, 1)
		// The answer to the first is held back, and the others are executed all the same.
		for e.server.String("GET", "k") != "2" {
			if ctx.Err() != nil {
				e.Fatal("later calls wait for the answer to the first")
			}
			time.Sleep(time.Millisecond)
		}
		hold.Release()
		r := <-done
		if r[0].Value != int64(1) || replyText(r[1].Err) != "NO good" || r[2].Value != int64(2) || !reflect.DeepEqual(r[3].Value, []any{int64(1)}) {
			e.Errorf("got %v, want 1, error NO good, 2, [1]", r)
		}
	})
}

// single is what a Conn has for calls that are made one by one.
type single interface {
	redishold.Single
	redishold.Beginner
}

// Calls of several goroutines may travel together: each is executed once, and its
// answer is its caller's, whatever happens to the script in between.
func TestCallsOfManyGoroutines(t *testing.T) {
	each(t, func(e *env) {
		const goroutines, calls = 50, 40
		script := redishold.NewScript("test", "redis.call('INCR', KEYS[1]) if ARGV[1] == 'odd' then return redis.error_reply('ODD ' .. ARGV[2]) end return ARGV[2]")
		ctx := await.Context(e.T, 20*time.Second)
		conn := e.conn.(single)
		var done sync.WaitGroup
		for i := range goroutines {
			done.Go(func() {
				for j := range calls {
					kind, want := "even", fmt.Sprint(i, "/", j)
					if j%2 == 1 {
						kind = "odd"
					}
					c := &redishold.Call{Script: script, Keys: []string{"sum"}, Args: []string{kind, want}}
					var r redishold.Result
					if j%4 < 2 {
						r = conn.DoOne(ctx, c)
					} else {
						r = conn.Begin(ctx, c)()
					}
					if kind == "even" && r.Value != want || kind == "odd" && replyText(r.Err) != "ODD "+want {
						t.Errorf("%s call: got %v, error %v, want %v", kind, r.Value, r.Err, want)
					}
					if i == 0 && j%10 == 5 {
						e.server.Do("SCRIPT", "FLUSH")
					}
				}
			})
		}
		done.Wait()
		if got := e.server.String("GET", "sum"); got != strconv.Itoa(goroutines*calls) {
			t.Errorf("the script ran %v times, want %v", got, goroutines*calls)
		}
	})
}

// What was begun earlier is answered though a context is over by then, and the
// context of a call that hangs ends that call alone.
func TestBegunCalls(t *testing.T) {
	each(t, func(e *env) {
		conn := e.conn.(single)
		ctx, cancel := context.WithCancel(context.Background())
		var begun []func() redishold.Result // several: an end and an answer that are both there are a toss-up
		for i := range 20 {
			c := call("return ARGV[1]", strconv.Itoa(i))
			begun = append(begun, conn.Begin(ctx, &c))
			c = call("overwritten")
		}
		// Later calls are answered later, and the one that takes the answers to the first
		// runs while this goroutine waits for theirs.
		for range 50 {
			if later := call("return 'later'"); conn.DoOne(await.Context(t, 5*time.Second), &later).Value != "later" {
				t.Fatal("no answer to a later call")
			}
		}
		cancel()
		for i, finish := range begun {
			if r := finish(); r.Value != strconv.Itoa(i) {
				t.Errorf("got %v, error %v, want %d", r.Value, r.Err, i)
			}
		}
		c := call("return 1")
		if r := conn.Begin(ctx, &c)(); !errors.Is(r.Err, driver.ErrNotExecuted) || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("begun when the context was over: got %v, error %v, want not sent", r.Value, r.Err)
		}
	})
}

func TestNoCalls(t *testing.T) {
	each(t, func(e *env) {
		if r := e.conn.Do(await.Context(e, time.Second)); len(r) != 0 {
			e.Errorf("got %v, want none", r)
		}
	})
}

func TestLostReplyIsUnknownAndNotRepeated(t *testing.T) {
	each(t, func(e *env) {
		e.conn.Do(await.Context(e, 5*time.Second), call(count)) // so that EVALSHA knows it
		for n, calls := range [][]redishold.Call{{call(count)}, {call(count), call(count)}} {
			e.server.Do("DEL", "k")
			lose := e.proxy.On(faultproxy.Script(redishold.NewScript("count", count).SHA()), faultproxy.CutAfterExecution(), faultproxy.Always())
			for _, r := range e.conn.Do(await.Context(e, 5*time.Second), calls...) {
				unknown(e, r.Err)
			}
			lose.Release()
			time.Sleep(30 * time.Millisecond) // a repetition would take go-redis up to 24 ms
			if got := e.server.String("GET", "k"); got < "1" || got > strconv.Itoa(n+1) {
				e.Errorf("%d calls: executed %s times", n+1, got)
			}
		}
		if r := e.conn.Do(await.Context(e, 5*time.Second), call("return 1")); r[0].Err != nil {
			e.Errorf("afterwards: got error %v", r[0].Err)
		}
	})
}

func TestResetMidCommandIsUnknown(t *testing.T) {
	each(t, func(e *env) {
		e.proxy.On(faultproxy.Command("EVALSHA"), faultproxy.ResetMidCommand())
		r := e.conn.Do(await.Context(e, 5*time.Second), call(count))
		unknown(e, r[0].Err)
		if r := e.conn.Do(await.Context(e, 5*time.Second), call("return 1")); r[0].Err != nil {
			e.Errorf("afterwards: got error %v", r[0].Err)
		}
	})
}

// endings are the ways in which a context ends.
var endings = map[string]struct {
	make func() (context.Context, context.CancelFunc)
	want error
}{
	"deadline": {func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 100*time.Millisecond)
	}, context.DeadlineExceeded},
	"cancel": {func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		return ctx, cancel
	}, context.Canceled},
	"cancel before the deadline": {func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		time.AfterFunc(100*time.Millisecond, cancel)
		return ctx, cancel
	}, context.Canceled},
	"cancel, with the context of a try": {func() (context.Context, context.CancelFunc) {
		parent, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		ctx := deadline.New(parent, time.Now().Add(time.Minute))
		return ctx, func() { ctx.End(); cancel() }
	}, context.Canceled},
}

// endsPromptly runs f with contexts that end after 100 ms.
func endsPromptly(e *env, f func(context.Context) error) {
	e.Helper()
	var wg sync.WaitGroup
	for name, ending := range endings {
		wg.Go(func() {
			ctx, cancel := ending.make()
			defer cancel()
			var err error
			var took time.Duration
			starved := await.Starved(func() {
				start := time.Now()
				err = f(ctx)
				took = time.Since(start)
			})
			if !errors.Is(err, ending.want) {
				e.Errorf("%s: got error %v, want %v", name, err, ending.want)
			}
			if late := took - 100*time.Millisecond; late > prompt+starved {
				e.Errorf("%s: returned %v after the end of its context; the machine stood still for %v", name, late, starved)
			}
		})
	}
	wg.Wait()
}

func TestContextEndsCall(t *testing.T) {
	states := map[string]func(e *env){
		"stalled reply": func(e *env) {
			e.proxy.On(faultproxy.Command("EVALSHA", "EVAL", "INFO", "SUBSCRIBE"), faultproxy.HoldReply(), faultproxy.Always())
		},
		"silent network": func(e *env) { e.proxy.Blackhole(true) },
		"silent network, new connection": func(e *env) {
			e.proxy.Blackhole(true)
			e.proxy.CutAll()
			// The client may have several connections that it does not know to be cut. A call on
			// one of them fails at once.
			await.Until(e, 10*time.Second, "eight calls wait one after the other", func() bool {
				for range 8 {
					r := e.conn.Do(await.Context(e, 50*time.Millisecond), call("return 1"))
					if !errors.Is(r[0].Err, context.DeadlineExceeded) {
						return false
					}
				}
				return true
			})
		},
		"server stopped": func(e *env) { e.server.Pause() },
	}
	for name, enter := range states {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				enter(e)
				e.Cleanup(func() { e.proxy.Blackhole(false); e.server.Resume() })
				endsPromptly(e, func(ctx context.Context) error {
					r := e.conn.Do(ctx, call("return 1"), call("return 2"))
					if !errors.Is(r[0].Err, r[1].Err) && r[0].Err.Error() != r[1].Err.Error() {
						e.Errorf("got errors %v and %v for one pipeline", r[0].Err, r[1].Err)
					}
					return r[0].Err
				})
				endsPromptly(e, func(ctx context.Context) error { return e.conn.Do(ctx, call("return 1"))[0].Err })
				endsPromptly(e, func(ctx context.Context) error {
					_, err := e.conn.Server(ctx)
					return err
				})
				endsPromptly(e, func(ctx context.Context) error {
					_, err := e.conn.Subscribe(ctx, redishold.Channel{Name: "c"}, func(redishold.Notice) {})
					return err
				})
			})
		})
	}
}

func TestContextEndsCallAmongManyOthers(t *testing.T) {
	each(t, func(e *env) {
		e.proxy.Blackhole(true)
		defer e.proxy.Blackhole(false)
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		start := await.NewWatch(e)
		var wg sync.WaitGroup
		for range 3000 { // more than a ring or a pool has places
			wg.Go(func() {
				if err := e.conn.Do(ctx, call("return 1"))[0].Err; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrNotExecuted) {
					e.Errorf("got error %v", err)
				}
			})
		}
		wg.Wait()
		if took := start.Took(); took > 1200*time.Millisecond { // 3000 goroutines share a machine
			e.Errorf("took %v", took)
		}
	})
}

func TestDeadContextIsNotSent(t *testing.T) {
	each(t, func(e *env) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for _, r := range e.conn.Do(ctx, call(count), call(count)) {
			if !errors.Is(r.Err, context.Canceled) || !errors.Is(r.Err, driver.ErrNotExecuted) {
				e.Errorf("got error %v, want one that is Canceled and ErrNotExecuted", r.Err)
			}
		}
		_, err := e.conn.Subscribe(ctx, redishold.Channel{Name: "c"}, func(redishold.Notice) {})
		if !errors.Is(err, context.Canceled) {
			e.Errorf("Subscribe: got error %v, want Canceled", err)
		}
		if got := e.server.Int("EXISTS", "k"); got != 0 {
			e.Error("a call with a dead context was executed")
		}
	})
}

func TestRefusedConnectionIsNotSent(t *testing.T) {
	each(t, func(e *env) {
		e.proxy.RefuseNew()
		e.proxy.CutAll()
		ctx := await.Context(e, 10*time.Second)
		var err error
		for range 20 { // the first ones may still learn that their connection is gone
			if err = e.conn.Do(ctx, call(count))[0].Err; errors.Is(err, driver.ErrNotExecuted) {
				break
			}
		}
		var cause *net.OpError
		if !errors.Is(err, driver.ErrNotExecuted) || !errors.As(err, &cause) {
			e.Fatalf("got error %v, want ErrNotExecuted with its cause", err)
		}
		if errors.Is(err, driver.ErrClosed) || errors.Is(err, driver.ErrRefused) {
			e.Errorf("got error %v, want one that does not last", err)
		}
		_, err = e.conn.Subscribe(ctx, redishold.Channel{Name: "c"}, func(redishold.Notice) {})
		if !errors.Is(err, driver.ErrNotExecuted) {
			e.Errorf("Subscribe: got error %v, want ErrNotExecuted", err)
		}
		if err := e.proxy.Accept(); err != nil {
			e.Fatal(err)
		}
		for e.conn.Do(ctx, call("return 1"))[0].Err != nil {
			if ctx.Err() != nil {
				e.Fatal("does not connect again")
			}
		}
	})
}

func TestClosedClientIsNotSent(t *testing.T) {
	each(t, func(e *env) {
		e.close()
		e.conn.Do(await.Context(e, time.Second), call(count)) // by which the adapter may find out
		one := call(count)
		for what, r := range map[string]redishold.Result{
			"Do":    e.conn.Do(await.Context(e, time.Second), one)[0],
			"batch": e.conn.Do(await.Context(e, time.Second), one, one)[1],
			"DoOne": e.conn.(redishold.Single).DoOne(await.Context(e, time.Second), &one),
			"Begin": e.conn.(redishold.Beginner).Begin(await.Context(e, time.Second), &one)(),
		} {
			if !errors.Is(r.Err, driver.ErrNotExecuted) || !errors.Is(r.Err, driver.ErrRefused) || !errors.Is(r.Err, driver.ErrClosed) {
				e.Errorf("%s: got error %v, want ErrNotExecuted, ErrRefused and ErrClosed", what, r.Err)
			}
		}
		if _, err := e.conn.Server(await.Context(e, time.Second)); !errors.Is(err, driver.ErrClosed) {
			e.Errorf("Server: got error %v, want ErrClosed", err)
		}
	})
}

func TestBusyPoolIsNotSent(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 1, MaxActiveConns: 1, PoolTimeout: 50 * time.Millisecond})
	defer client.Close()
	conn := goredisconn.New(client)
	hold := proxy.On(faultproxy.Command("EVALSHA", "EVAL"), faultproxy.HoldReply())
	var wg sync.WaitGroup
	wg.Go(func() { conn.Do(await.Context(t, 5*time.Second), call(count)) })
	hold.Wait(t, 1)
	r := conn.Do(await.Context(t, 5*time.Second), call(count))
	if !errors.Is(r[0].Err, driver.ErrNotExecuted) {
		t.Errorf("got error %v, want ErrNotExecuted", r[0].Err)
	}
	hold.Release()
	wg.Wait()
}

func TestAuthentication(t *testing.T) {
	server := redistest.Start(t, redistest.Password("correct"))
	for _, s := range subjects() {
		for password, want := range map[string]string{"": "NOAUTH", "secret-but-wrong": "WRONGPASS"} {
			t.Run(fmt.Sprintf("%s/%s", s.name, want), func(t *testing.T) {
				conn, closeConn, err := s.open(login{addr: server.Addr(), password: password})
				if err == nil {
					defer closeConn()
					err = conn.Do(await.Context(t, 5*time.Second), call(count))[0].Err
					if text := replyText(err); !strings.HasPrefix(text, want) {
						t.Errorf("got error %v, want a ReplyError that starts with %s", err, want)
					}
					_, err = conn.Subscribe(await.Context(t, 5*time.Second), redishold.Channel{Name: "c"}, func(redishold.Notice) {})
				}
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %s", err, want)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("the error shows the password: %v", err)
				}
			})
		}
	}
}

func TestReplicas(t *testing.T) {
	each(t, func(e *env) {
		must := call(count)
		must.Replicas = 1
		r := e.conn.Do(await.Context(e, 5*time.Second), must, call(count))
		if text := replyText(r[0].Err); !strings.HasPrefix(text, "NOREPLICAS ") || r[0].Value != int64(1) {
			e.Errorf("without a replica: got %v, error %v, want 1 and NOREPLICAS", r[0].Value, r[0].Err)
		}
		if r[1].Err != nil || r[1].Value != int64(2) {
			e.Errorf("beside it: got %v, error %v, want 2", r[1].Value, r[1].Err)
		}
		redistest.Start(e.T, redistest.Conf("replicaof "+strings.Replace(e.server.Addr(), ":", " ", 1)))
		e.server.AwaitReplicas(1)
		want := int64(2)
		await.Until(e, 20*time.Second, "a replica acknowledges", func() bool { // one that is busy may be late for a WAIT
			want++
			r := e.conn.Do(await.Context(e, 5*time.Second), must)[0]
			if late := strings.HasPrefix(replyText(r.Err), "NOREPLICAS 0 of 1 "); r.Err != nil && !late || r.Value != want {
				e.Fatalf("with a replica: got %v, error %v, want %d", r.Value, r.Err, want)
			}
			return r.Err == nil
		})
		info, err := e.conn.Server(await.Context(e, 5*time.Second))
		if err != nil || info.Replicas != 1 || info.Role != "master" {
			e.Errorf("got %+v, error %v, want a master with 1 replica", info, err)
		}
	})
}

func TestWaitDelaysNobody(t *testing.T) {
	each(t, func(e *env) {
		must := call(count)
		must.Replicas = 3
		var wg sync.WaitGroup
		wait := e.proxy.On(faultproxy.Command("WAIT"), faultproxy.HoldReply())
		ctx, cancel := context.WithCancel(await.Context(e, 5*time.Second))
		wg.Go(func() { e.conn.Do(ctx, must) })
		wait.Wait(e, 1)
		if r := e.conn.Do(await.Context(e, 3*time.Second), call("return 1")); r[0].Err != nil {
			e.Errorf("beside a WAIT: got error %v", r[0].Err)
		}
		cancel() // no replica will acknowledge
		wait.Release()
		wg.Wait()
	})
}

func TestServerInfo(t *testing.T) {
	each(t, func(e *env) {
		info, err := e.conn.Server(await.Context(e, 5*time.Second))
		if err != nil {
			e.Fatalf("got error %v", err)
		}
		field := func(name string) string {
			_, rest, _ := strings.Cut(e.server.String("INFO"), name+":")
			value, _, _ := strings.Cut(rest, "\r\n")
			return value
		}
		want := redishold.ServerInfo{
			Version: field("redis_version"), RunID: field("run_id"), Role: "master", EvictionPolicy: "noeviction",
			ShardedPS: field("redis_version") >= "7",
		}
		if info.Uptime > time.Minute { // in whole seconds, of a server that has just started
			e.Errorf("the server is up for %v", info.Uptime)
		}
		info.Uptime = 0
		if info != want {
			e.Errorf("got %+v, want %+v", info, want)
		}
		for _, raw := range []string{
			"NOPERM this user has no permissions to run the 'info' command",
			"ERR unknown command 'info'",
		} {
			e.proxy.On(faultproxy.Command("INFO"), faultproxy.Reply("-"+raw+"\r\n"))
			if info, err := e.conn.Server(await.Context(e, 5*time.Second)); err != nil || info != (redishold.ServerInfo{}) {
				e.Errorf("%s: got %+v, error %v, want nothing", raw, info, err)
			}
		}
	})
}

func TestRingIsRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFrequency: time.Hour})
	defer ring.Close()
	conn := goredisconn.New(ring)
	err := conn.Do(await.Context(t, time.Second), call(count))[0].Err
	if !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), "Ring") {
		t.Errorf("got error %v, want ErrNotExecuted that names Ring", err)
	}
	if _, err := conn.Subscribe(await.Context(t, time.Second), redishold.Channel{Name: "c"}, func(redishold.Notice) {}); err == nil {
		t.Error("Subscribe accepts a Ring")
	}
	if _, err := conn.Server(await.Context(t, time.Second)); err == nil {
		t.Error("Server accepts a Ring")
	}
}
