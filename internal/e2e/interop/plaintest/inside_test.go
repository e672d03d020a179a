package plaintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// pause is how long the Go libraries wait between attempts.
const pause = 5 * time.Millisecond

// library makes the locks of a Go library.
type library interface {
	lock(name string) foreignLock
}

// foreignLock is one thread's lock of one name.
type foreignLock interface {
	// acquire tries until ctx is done, at least once; value is the token to use,
	// "" for the library's own.
	acquire(ctx context.Context, wait, lease time.Duration, value string) (bool, error)
	release(ctx context.Context) error
	stranger(ctx context.Context) error
	extend(ctx context.Context, lease time.Duration) error
	isHeld(ctx context.Context) (bool, error)
}

// inside is a Go library that carries out commands as the programs do.
type inside struct {
	client  *redis.Client
	library library
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	threads map[string]chan order
}

// order is a command and where its answer goes.
type order struct {
	command peer.Command
	answer  chan<- peer.Reply
}

// startInside runs a library over a client of its own, until t ends.
func startInside(t testing.TB, url string, of func(*redis.Client) library) *inside {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	p := &inside{client: client, library: of(client), threads: map[string]chan order{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	t.Cleanup(p.Kill)
	return p
}

// Go does what peer.Process.Go does.
func (p *inside) Go(c peer.Command) <-chan peer.Reply {
	answer := make(chan peer.Reply, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	orders, ok := p.threads[c.Thread]
	if !ok {
		orders = make(chan order, 16)
		p.threads[c.Thread] = orders
		p.running.Go(func() { p.work(orders) })
	}
	orders <- order{c, answer}
	return answer
}

// Kill lets go of everything without a word to the server.
func (p *inside) Kill() {
	p.end()
	p.running.Wait()
	_ = p.client.Close()
}

// work is a logical thread.
func (p *inside) work(orders <-chan order) {
	locks := map[string]foreignLock{}
	for {
		select {
		case <-p.ctx.Done():
			return
		case o := <-orders:
			if locks[o.command.Name] == nil {
				locks[o.command.Name] = p.library.lock(o.command.Name)
			}
			o.answer <- p.carryOut(locks[o.command.Name], o.command)
		}
	}
}

func (p *inside) carryOut(lock foreignLock, c peer.Command) peer.Reply {
	value, err := p.do(lock, c)
	if err != nil {
		return peer.Reply{Class: fmt.Sprintf("%T", err), Error: err.Error(), Received: time.Now()}
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return peer.Reply{Value: text, Received: time.Now()}
}

// do carries out one of the operations that peer.py lists.
func (p *inside) do(lock foreignLock, c peer.Command) (any, error) {
	wait, lease := time.Duration(c.Wait)*time.Millisecond, time.Duration(c.Lease)*time.Millisecond
	switch c.Op {
	case "lock":
		return lock.acquire(p.ctx, wait, lease, latin1(c.Value))
	case "tryLock":
		return lock.acquire(p.ctx, 0, lease, latin1(c.Value))
	case "unlock":
		return true, lock.release(p.ctx)
	case "stranger":
		return true, lock.stranger(p.ctx)
	case "extend":
		return true, lock.extend(p.ctx, lease)
	case "isHeld":
		return lock.isHeld(p.ctx)
	case "rounds":
		return c.N, p.rounds(lock, c.N, lease, c.Value)
	default:
		return nil, fmt.Errorf("unknown operation %s", c.Op)
	}
}

func (p *inside) rounds(lock foreignLock, n int64, lease time.Duration, counter string) error {
	for range n {
		if ok, err := lock.acquire(p.ctx, time.Minute, lease, ""); !ok {
			return fmt.Errorf("not acquired within a minute: %w", err)
		}
		if err := count(p.ctx, p.client, counter, "peer"); err != nil {
			return err
		}
		if err := lock.release(p.ctx); err != nil {
			return err
		}
		think()
	}
	return nil
}

// think is what a program does between two locks. Without it whoever just had
// the lock has it again before anybody asks.
func think() { time.Sleep(rand.N(3 * time.Millisecond)) }

// count adds one to a counter that nothing but a lock protects, and writes down
// who did.
func count(ctx context.Context, client *redis.Client, counter, who string) error {
	seen, err := client.Get(ctx, counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return errors.Join(
		client.Set(ctx, counter, seen+1, 0).Err(),
		client.Set(ctx, counter+":last", who, 0).Err(),
	)
}

// latin1 returns the bytes that the characters of s stand for: JSON has no bytes.
func latin1(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}
