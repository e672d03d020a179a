package scripttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// Options.Replicas on a master with two replicas. A replica that is stopped
// (SIGSTOP) stays connected and acknowledges nothing.

type replicated struct {
	*redistest.Server
	t        *testing.T
	conn     redishold.Conn
	replicas [2]*redistest.Server
}

func newReplicated(t *testing.T) replicated {
	t.Helper()
	// A diskless master calls a replica online up to a second before it sends writes.
	r := replicated{Server: redistest.Start(t, redistest.Conf("repl-diskless-sync no")), t: t}
	_, port, err := net.SplitHostPort(r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.replicas {
		r.replicas[i] = redistest.Start(t, redistest.Conf("replicaof 127.0.0.1 "+port))
	}
	r.await(2)
	r.conn = connect(t, r.Addr(), "", "")
	return r
}

// await waits until so many replicas follow.
func (r replicated) await(replicas int64) {
	r.t.Helper()
	await.Until(r.t, 10*time.Second, fmt.Sprintf("%d replicas follow", replicas), func() bool {
		r.String("SET", "follow", "me", "PX", "100")
		info := r.String("INFO", "replication")
		return strings.Contains(info, fmt.Sprintf("connected_slaves:%d\r\n", replicas)) && int64(strings.Count(info, "state=online")) == replicas
	})
	r.AwaitReplicas(int(replicas))
}

func (r replicated) backend(replicas int) *redishold.Backend {
	return redishold.New(r.conn, &redishold.Options{Replicas: replicas})
}

// wantShort tries a claim that must fail for want of replicas and leave nothing.
func (r replicated) wantShort(b *redishold.Backend, name, words string) {
	r.t.Helper()
	_, err := b.Try(bounded(r.t), claim(name, "short"))
	if !errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), words) {
		r.t.Errorf("%s: got %v, want ErrNotExecuted with %q", name, err, words)
	}
	if got := r.Int("EXISTS", name); got != 0 {
		r.t.Errorf("%s: the lock is still held", name)
	}
}

func (r replicated) wantGrant(b *redishold.Backend, name string) driver.Claim {
	r.t.Helper()
	c := claim(name, name)
	mustGrant(r.t, b, c)
	return c
}

func wantHoldEnds(t *testing.T, b *redishold.Backend, words string, cs ...driver.Claim) {
	t.Helper()
	answers, err := b.Renew(bounded(t), cs)
	if err != nil || len(answers) != len(cs) {
		t.Fatalf("Renew: got %+v and error %v", answers, err)
	}
	for i, a := range answers {
		var gone *driver.GoneError
		if !errors.As(a.Err, &gone) || gone.Reason != driver.ReasonUnreachable || !strings.Contains(gone.Detail, words) {
			t.Errorf("Renew of %s: got %v, want the hold to end with %q", cs[i].Name, a.Err, words)
		}
	}
}

func TestReplicasMustAcknowledge(t *testing.T) {
	r := newReplicated(t)
	one, two, three, all := r.backend(1), r.backend(2), r.backend(3), r.backend(redishold.AllReplicas)

	held := []driver.Claim{r.wantGrant(all, "a"), r.wantGrant(all, "b"), r.wantGrant(two, "c")}
	for _, replica := range r.replicas {
		for _, c := range held {
			if got := replica.Map("HGETALL", c.Name); len(got) != 1 {
				t.Errorf("a replica has %v of %s, want the lock", got, c.Name)
			}
		}
	}
	if answers, err := all.Renew(bounded(t), held); err != nil || answers[0].Err != nil || answers[2].Err != nil {
		t.Fatalf("Renew: got %+v and error %v", answers, err)
	}
	r.wantShort(three, "d", "2 of 3")

	r.replicas[0].Pause()
	mustRenewOn(t, one, r.wantGrant(one, "e"))
	r.wantShort(two, "f", "1 of 2")
	r.wantShort(all, "f", "1 of 2")
	wantHoldEnds(t, all, "1 of 2", held...)
	wantHoldEnds(t, two, "1 of 2", held[0])
	mustRefuse(t, all, claim("a", "other"))

	r.replicas[0].Resume()
	r.await(2)
	r.wantGrant(all, "g")

	r.replicas[0].Kill()
	r.await(1)
	held = []driver.Claim{r.wantGrant(all, "h"), r.wantGrant(all, "i")}
	r.wantShort(two, "j", "1 of 2")

	r.replicas[1].Kill()
	r.await(0)
	r.wantShort(all, "k", "0 replicas are connected")
	wantHoldEnds(t, all, "0 replicas are connected", held...)
	r.wantShort(one, "k", "0 of 1")
}

func mustRenewOn(t *testing.T, b driver.Backend, c driver.Claim) {
	t.Helper()
	if answers, err := b.Renew(bounded(t), []driver.Claim{c}); err != nil || answers[0].Err != nil {
		t.Fatalf("Renew: got %+v and error %v, want nil", answers, err)
	}
}

// A Locker waits for the replicas, and its hold ends when they fail.
func TestReplicasAndALocker(t *testing.T) {
	r := newReplicated(t)
	short := make(chan error, 1) // a renewal that reports the replicas; one that is cut off may follow
	locker := holdfast.New(r.backend(redishold.AllReplicas), &holdfast.Options{TTL: 3 * time.Second, Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventRenew && e.Err != nil && strings.Contains(e.Err.Error(), "1 of 2 replicas") {
			select {
			case short <- e.Err:
			default:
			}
		}
	}})
	t.Cleanup(func() { must.Drain(t, locker) })
	r.replicas[1].Pause()
	resumed := time.AfterFunc(1500*time.Millisecond, r.replicas[1].Resume)
	defer resumed.Stop()
	lock, err := locker.Lock(bounded(t), "stock:42")
	if err != nil {
		t.Fatalf("Lock: got %v, want it once the replica is back", err)
	}
	r.replicas[1].Pause()
	<-lock.Context(bounded(t)).Done()
	var lost *holdfast.LostError
	if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonUnreachable {
		t.Fatalf("got %v, want a loss as the replicas are unreachable", err)
	}
	select {
	case <-short:
	case <-bounded(t).Done():
		t.Error("no renewal told of the replicas")
	}
	r.replicas[1].Resume()
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Fatalf("Unlock: got %v, want ErrLost", err)
	}
	if err := locker.Drain(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasWithoutTheRightToWait(t *testing.T) {
	server := redistest.Start(t)
	server.String("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", "-wait")
	for _, replicas := range []int{1, redishold.AllReplicas} {
		b := redishold.New(connect(t, server.Addr(), "limited", "secret"), &redishold.Options{Replicas: replicas})
		_, err := b.Try(bounded(t), claim("stock:42", "1"))
		if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.Contains(err.Error(), "+wait") {
			t.Errorf("Replicas %d: got %v, want a refusal that says +wait", replicas, err)
		}
		t.Log(err)
	}
	server.String("ACL", "SETUSER", "limited", "+wait", "-info")
	b := redishold.New(connect(t, server.Addr(), "limited", "secret"), &redishold.Options{Replicas: redishold.AllReplicas})
	_, err := b.Try(bounded(t), claim("stock:42", "1"))
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, driver.ErrNotExecuted) || !strings.HasSuffix(err.Error(), "+info") {
		t.Errorf("without INFO: got %v, want a refusal that says +info", err)
	}
	t.Log(err)
	if keys := server.Keys(); len(keys) != 0 {
		t.Errorf("the probe left %q", keys)
	}
}
