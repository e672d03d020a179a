package peer

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, dial.Sleepers()...) }

func open(t *testing.T, name string) Peer {
	t.Helper()
	p := openAt(t, redistest.Start(t), name)
	t.Cleanup(p.Close)
	return p
}

func openAt(t *testing.T, server *redistest.Server, name string) Peer {
	t.Helper()
	spec, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := spec.Open(t.Context(), Target{Redis: server.Addr(), TTL: Duration(30 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a Spec says that its peer can do, the peer has methods for.
func TestAbilitiesAreTrue(t *testing.T) {
	server := redistest.Start(t)
	interfaces := map[Ability]reflect.Type{
		Shares: reflect.TypeFor[ReadWrite](), Queues: reflect.TypeFor[Fair](), Counts: reflect.TypeFor[Counting](),
		Several: reflect.TypeFor[Multi](), Hears: reflect.TypeFor[Hearing](),
	}
	for _, s := range Specs() {
		if s.Client == "etcd" || s.Open == nil {
			continue
		}
		p, err := s.Open(t.Context(), Target{Redis: server.Addr(), TTL: Duration(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		for ability, methods := range interfaces {
			if has := reflect.TypeOf(p).Implements(methods); has != s.Is(ability) {
				t.Errorf("%s: says %v of %q, its methods say %v", s.Name, s.Is(ability), ability, has)
			}
		}
		p.Close()
	}
}

func TestNames(t *testing.T) {
	for _, list := range [][]Spec{Specs(), OtherSpecs()} {
		seen := map[string]bool{}
		for _, s := range list {
			if seen[s.Name] || s.Client == "" || s.Role == "" || (s.Open == nil) == (s.Program == nil) {
				t.Errorf("%+v is twice there or not complete", s)
			}
			seen[s.Name] = true
		}
	}
	for _, s := range OtherSpecs() {
		if s.Store() == Redis {
			t.Errorf("%s is a peer of Redis", s.Name)
		}
	}
	if _, err := Find("nobody"); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("a peer that does not exist: got error %v, want its name", err)
	}
}

func TestTargetAsJSON(t *testing.T) {
	want := Target{Redis: "a:1", Etcd: "b", ZooKeeper: "c", PostgreSQL: "d", MySQL: "e", TTL: Duration(1500 * time.Millisecond)}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Target
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
}

// Every peer says so when the lock that it releases was not its own any more.
func TestUnlockOfWhatIsGone(t *testing.T) {
	for _, name := range []string{"redsync-goredis", "redsync-rueidis", "redislock", "redisson", "raw-rueidis", "raw-goredis", "raw-scripts-rueidis", "raw-scripts-goredis", "raw-scripts-socket"} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			p := openAt(t, server, name)
			defer p.Close()
			held, err := p.Lock(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			server.Do("DEL", "k")
			if err := held.Unlock(); err == nil {
				t.Fatal("got no error")
			}
		})
	}
}

// Unlock of the rows with AsyncUnlock returns while the server withholds its answer, and Close
// waits for that answer.
func TestAsyncUnlock(t *testing.T) {
	for _, name := range []string{"holdfast-async-rueidis", "holdfast-async-goredis"} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			p := openAt(t, server, name)
			held, err := p.Lock(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			server.Do("CLIENT", "PAUSE", "120000", "WRITE")
			if err := held.Unlock(); err != nil {
				t.Fatalf("Unlock waited for the answer: %v", err)
			}
			closed := make(chan struct{})
			go func() { p.Close(); close(closed) }()
			for range 100 { // a Close that does not wait has ended by then
				server.Do("PING")
			}
			select {
			case <-closed:
				t.Error("Close did not wait for the answer")
			default:
			}
			server.Do("CLIENT", "UNPAUSE")
			<-closed
			if left := server.Do("EXISTS", "k"); left != int64(0) {
				t.Errorf("got %v locks after Close, want none", left)
			}
		})
	}
}

// The peers with the scripts of Holdfast send what Holdfast sends.
func TestScriptsAreThoseOfHoldfast(t *testing.T) {
	for _, name := range []string{"raw-scripts-rueidis", "raw-scripts-goredis", "raw-scripts-socket"} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			p := openAt(t, server, name)
			defer p.Close()
			var owners []any
			for range 2 {
				held, err := p.Lock(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				fields, _ := server.Do("HKEYS", "k").([]any)
				if len(fields) != 1 {
					t.Fatalf("got owners %v, want one", fields)
				}
				if left, _ := server.Do("PTTL", "k").(int64); left < 20_000 || left > 30_000 {
					t.Errorf("got %d ms of the lease left, want 30,000 at most", left)
				}
				owners = append(owners, fields[0])
				if _, err := p.Lock(t.Context(), "k"); err == nil {
					t.Fatal("got a lock that is held")
				}
				if err := held.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
			if owners[0] == owners[1] {
				t.Errorf("got the owner %v twice, want another one for each lock", owners[0])
			}
		})
	}
}

// The queue of the algorithm as written goes by the order of asking.
func TestRedissonKeepsTheOrder(t *testing.T) {
	p := open(t, "redisson").(*redissonPeer)
	first, err := p.LockFair(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 5
	order := make(chan int, waiters)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range waiters {
		wg.Go(func() {
			held, err := p.LockFair(t.Context(), "k")
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			if err := held.Unlock(); err != nil {
				t.Error(err)
			}
		})
		awaitLength(t, p, "redisson_lock_queue:{k}", int64(i+1))
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	close(order)
	for want := range waiters {
		if got := <-order; got != want {
			t.Fatalf("got waiter %d, want %d", got, want)
		}
	}
}

// A waiter that gives up leaves the queue.
func TestRedissonGivesUp(t *testing.T) {
	p := open(t, "redisson").(*redissonPeer)
	first, err := p.LockFair(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.LockFair(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want context.DeadlineExceeded", err)
	}
	awaitLength(t, p, "redisson_lock_queue:{k}", 0)
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func awaitLength(t *testing.T, p *redissonPeer, list string, want int64) {
	t.Helper()
	if !await.Eventually(10*time.Second, func() bool { return p.client.LLen(t.Context(), list).Val() == want }) {
		t.Fatalf("the queue is %q, want %d members", p.client.LRange(t.Context(), list, 0, -1).Val(), want)
	}
}

// A pool has as many connections as the target says, and never less than by default.
func TestPool(t *testing.T) {
	for want, pool := range map[int]int{10 * runtime.GOMAXPROCS(0): 1, 5000: 5000} {
		client := goRedis(Target{Redis: "127.0.0.1:1", Pool: pool})
		if got := client.Options().PoolSize; got != want {
			t.Errorf("pool of %d: got %d connections, want %d", pool, got, want)
		}
		_ = client.Close()
	}
}

// Where Redisson was not built, its row is left out with the reason.
func TestRedissonNeedsItsProgram(t *testing.T) {
	spec, err := Find("redisson-java")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Program(Target{}); err == nil || !strings.Contains(err.Error(), ".ci/interop-java") {
		t.Errorf("got %v, want what builds it", err)
	}
	if command, err := spec.Program(Target{Redisson: "/r"}); err != nil || command[0] != "java" {
		t.Errorf("got %q, %v, want a program in Java", command, err)
	}
}

func TestEtcdNeedsAServer(t *testing.T) {
	spec, err := Find("etcd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Open(t.Context(), Target{}); err == nil {
		t.Fatal("got no error without a server")
	}
}
