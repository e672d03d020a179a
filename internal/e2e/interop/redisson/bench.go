package redisson

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// WakeLimit is how soon a waiter of one language has to have what the other gave
// back, where a message says so.
const WakeLimit = 500 * time.Millisecond

// Case is one case of the suite.
type Case struct {
	Name string // "03 Java unlocks while Go waits": the number, and what happens
	From string // the version that first has what it needs; "" for all
	Run  func(t *testing.T, b *Bench)
}

// Bench is what a case has: a deployment of its version's own, a JVM that it shares
// with other cases at the same time, and a name that only it uses.
type Bench struct {
	Version    string
	Deployment *redistest.Deployment
	Java       *peer.Process // with Redisson's defaults; not to be paused or killed
	Name       string        // of the case's lock, without Prefix
	Prefix     string        // the key prefix of the case's clients of Holdfast, or ""
	t          *testing.T
	quiet      *sync.RWMutex // locked while a case starts a JVM
}

// Run runs the cases on every version, one version after another, the cases of a
// version at the same time. In the end only the keys that may remain are there.
func Run(t *testing.T, versions []string, topology redistest.Topology, cases []Case) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			if !slices.ContainsFunc(cases, func(c Case) bool { return c.in(version) }) {
				t.Skipf("Redisson %s has none of these", version)
			}
			d := redistest.StartDeployment(t, topology)
			java := Start(t, version, On(d))
			warmUp(t, java)
			quiet := new(sync.RWMutex)
			t.Run("all", func(t *testing.T) {
				for _, c := range cases {
					t.Run(c.Name, func(t *testing.T) {
						if !c.in(version) {
							t.Skipf("Redisson %s has none: it came with %s", version, c.From)
						}
						t.Parallel()
						number, _, _ := strings.Cut(c.Name, " ")
						b := &Bench{Version: version, Deployment: d, Java: java, Name: "case" + number + ":lock", t: t, quiet: quiet}
						t.Cleanup(b.wantClean) // the first to be said is the last to be done
						c.Run(t, b)
					})
				}
			})
		})
	}
}

// WarmUp has two threads hand a lock over: a JVM loads and compiles what it does
// for the first time, and is no measure then, nor is what others do meanwhile.
func (b *Bench) WarmUp(java *peer.Process) {
	b.t.Helper()
	b.quiet.Lock()
	defer b.quiet.Unlock()
	warmUp(b.t, java)
}

func warmUp(t *testing.T, java *peer.Process) {
	a, b := ThreadOf(t, java, "warm-a"), ThreadOf(t, java, "warm-b")
	lock, unlock := peer.Command{Op: "lock", Name: "warm-up"}, peer.Command{Op: "unlock", Name: "warm-up"}
	for range 3 {
		a.Do(lock)
		waits := b.Begin(lock)
		b.AwaitSleep()
		a.Do(unlock)
		waits.Wait()
		b.Do(unlock)
	}
}

// in says that a version has what the case needs.
func (c Case) in(version string) bool { return c.From == "" || !older(version, c.From) }

// older compares versions by their numbers.
func older(a, b string) bool {
	var x, y [3]int
	_, _ = fmt.Sscanf(a, "%d.%d.%d", &x[0], &x[1], &x[2])
	_, _ = fmt.Sscanf(b, "%d.%d.%d", &y[0], &y[1], &y[2])
	return slices.Compare(x[:], y[:]) < 0
}

// Admin looks into the server that keeps the case's lock.
func (b *Bench) Admin() redistest.Admin { return b.Deployment.Master(b.Name).Admin.Bind(b.t) }

// JVM starts a client of the case's own, on the same deployment; change may be nil.
func (b *Bench) JVM(change func(*Settings)) *peer.Process {
	b.t.Helper()
	s := On(b.Deployment)
	if change != nil {
		change(&s)
	}
	b.quiet.Lock()
	defer b.quiet.Unlock()
	return Start(b.t, b.Version, s)
}

// Quiet returns what keeps other cases from starting a JVM, which takes all that a
// small machine has, while a wake-up is measured.
func (b *Bench) Quiet() sync.Locker { return b.quiet.RLocker() }

// Alone returns a Bench for the same case on a deployment of the case's own. It has
// no JVM.
func (b *Bench) Alone(options ...redistest.Option) *Bench {
	b.t.Helper()
	d := redistest.StartDeployment(b.t, b.Deployment.Topology(), options...)
	own := &Bench{Version: b.Version, Deployment: d, Name: b.Name, Prefix: b.Prefix, t: b.t, quiet: b.quiet}
	b.t.Cleanup(own.wantClean)
	return own
}

// Backend returns Holdfast's store on the deployment, through the adapter of
// rueidis. It ends with the test.
func (b *Bench) Backend(o redishold.Options) *redishold.Backend {
	b.t.Helper()
	return b.Through("rueidis", o)
}

// Through returns Holdfast's store on the deployment.
func (b *Bench) Through(adapter string, o redishold.Options) *redishold.Backend {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, shut, err := dial.Open(ctx, dial.To(adapter, b.Deployment))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(shut)
	return redishold.New(conn, &o)
}

// Locker returns a Locker of the case's own with that TTL. The test ends when its
// clean-up has.
func (b *Bench) Locker(ttl time.Duration) *holdfast.Locker {
	b.t.Helper()
	return b.Over(b.Backend(redishold.Options{}), ttl)
}

// Over returns a Locker over a store.
func (b *Bench) Over(store *redishold.Backend, ttl time.Duration) *holdfast.Locker {
	b.t.Helper()
	l := holdfast.New(store, &holdfast.Options{TTL: ttl})
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*ttl+5*time.Second)
		defer cancel()
		if err := l.Drain(ctx); err != nil {
			b.t.Errorf("Drain: %v", err)
		}
	})
	return l
}

// wantClean wants no key of the case left but those that section 20.1 of the
// protocol names, and Holdfast's own short-lived ones.
func (b *Bench) wantClean() {
	b.t.Helper()
	if b.t.Failed() || b.t.Skipped() {
		return
	}
	end := time.Now().Add(5 * time.Second)
	for left := b.left(); len(left) > 0; left = b.left() {
		if time.Now().After(end) {
			b.t.Errorf("keys left: %q", left)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// left lists the case's keys that may not remain.
func (b *Bench) left() []string {
	stem, _, _ := strings.Cut(b.Name, ":")
	var left []string
	for _, master := range b.Deployment.Masters() {
		for _, key := range master.Admin.Bind(b.t).Keys() {
			if strings.Contains(key, stem+":") && !remains(strings.TrimPrefix(key, b.Prefix)) {
				left = append(left, key)
			}
		}
	}
	return left
}

// remains reports whether a key, without the prefix of the case, may outlive a lock.
func remains(key string) bool {
	return redistest.Passing(key) ||
		strings.HasPrefix(key, "redisson_lock_token:") || strings.HasPrefix(key, "redisson_unlock_latch:") || strings.HasPrefix(key, "holdfast:token:") ||
		strings.HasSuffix(key, ":counter") || strings.HasSuffix(key, ":counter:in")
}
