//go:build unix

package cli

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// soonEnough is how long people wait before they are to see what is wrong.
const soonEnough = 2 * time.Second

// graces is how long a store may be silent, or elect a leader, before a command ends.
const graces = 1400 * time.Millisecond

// says fails the test unless the command has said text in soonEnough, net of the time in
// which the machine gave it no processor.
func (c *calling) says(text string) {
	c.t.Helper()
	c.saysIn(soonEnough, text)
}

func (c *calling) saysIn(limit time.Duration, text string) {
	c.t.Helper()
	begun := await.NewWatch(c.t)
	await.Until(c.t, 20*time.Second, "it says "+text, func() bool { return strings.Contains(c.stderr.String(), text) })
	if took := begun.Took(); took > limit {
		c.t.Errorf("it said %q after %v, want %v at most; the machine stood still for %v", text, took, limit, begun.Late())
	}
}

// A command that waits says within two seconds that no holder is the reason, from the
// beginning and when that changes, and once.
func TestRunSaysWhyItWaits(t *testing.T) {
	const silent = "; the store has not answered for "
	for name, test := range map[string]struct {
		held    bool   // when the command begins
		command string // what makes the server unable
		want    string
	}{
		"read-only": {false, "REPLICAOF 127.0.0.1 1", "; the store does not grant it: redis refuses \"job\": READONLY You can't write"},
		"replicas":  {false, "CONFIG SET min-replicas-to-write 1", "; the store does not grant it: redis refuses \"job\": NOREPLICAS Not enough good replicas"},
		"frozen":    {true, "CLIENT PAUSE 30000 ALL", silent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := realSite(t)
			s.environ = []string{"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=" + s.url}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			unable := func() { tell(t, strings.TrimPrefix(s.url, "unix://"), test.command) }
			if test.held {
				if _, err := s.locker("ci-runner-7@build:4121").TryLock(ctx, "job"); err != nil {
					t.Fatal(err)
				}
			} else {
				unable()
			}
			c := begin(t, ctx, strings.NewReader(""), s.environ, "run", "-t", "2s", "job", "--", "true")
			if test.held {
				c.says("(ci-runner-7@build:4121)")
				unable()
			}
			c.says(test.want)
			end()
			c.wait()
			if n := strings.Count(c.stderr.String(), "the store"); n != 1 {
				t.Errorf("it spoke %d times of the store, want once: %s", n, c.stderr.String())
			}
		})
	}
}

// A run that waited beside a store that hangs ends half a second after --wait at the latest,
// and does not wait longer for its clean-up.
func TestRunEndsInTime(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.environ = []string{"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=" + s.url}
	if _, err := s.locker("somebody").TryLock(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	c := begin(t, t.Context(), strings.NewReader(""), s.environ, "run", "-w", "3s", "job", "--", "true")
	begun := await.NewWatch(t)
	c.says("(somebody)")
	tell(t, strings.TrimPrefix(s.url, "unix://"), "CLIENT PAUSE 30000 ALL")
	c.wait().want(t, output.ExitUnreachable, "")
	if took := begun.Took(); took > 3500*time.Millisecond {
		t.Errorf("it ended after %v, want 3.5s at most; the machine stood still for %v", took, begun.Late())
	}
}

// startIdleZooKeeper starts as much of a ZooKeeper without a majority as clients see, and
// returns its address.
func startIdleZooKeeper(t *testing.T) string {
	t.Helper()
	return must.Serve(t, func(conn net.Conn) {
		word := make([]byte, 4)
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		if n, _ := conn.Read(word); string(word[:n]) == "srvr" {
			_, _ = conn.Write([]byte("This ZooKeeper instance is not currently serving requests\n"))
		}
	})
}

// A store without a majority is named as that by every command, with the status of a store
// that cannot be reached, and soon.
func TestNoMajority(t *testing.T) {
	face, etcd := startEtcdFace(t, nil, false)
	face.leader = 0
	for url, limit := range map[string]time.Duration{
		"etcd://" + etcd: soonEnough,
		// A command that ends closes its connection first. Conn.Close of go-zookeeper 1.0.4 waits
		// a second if the goroutines of the connection ended before its request.
		"zk://" + startIdleZooKeeper(t): soonEnough + time.Second,
	} {
		const want = ": no majority of its members is up and connected, so it does not work (1 of the 1 in the URL answer)"
		for _, line := range []string{"ls", "inspect job", "status", "status job", "run -t 2s -w 3s job true", "force-unlock -y --token 1 --reason why job"} {
			t.Run(url[:4]+line, func(t *testing.T) {
				t.Parallel()
				c := begin(t, t.Context(), strings.NewReader(""), bare("HOLDFAST_URL="+url), strings.Fields(line)...)
				c.saysIn(limit, want)
				c.wait().want(t, output.ExitUnreachable, want)
			})
		}
		t.Run(url[:4]+"run", func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			c := begin(t, ctx, strings.NewReader(""), bare("HOLDFAST_URL="+url), "run", "-t", "2s", "job", "true")
			c.says(`waiting for lock "job"; the store does not grant it: `)
			c.says(want)
			end()
			c.wait()
		})
		t.Run(url[:4]+"tail", func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			c := begin(t, ctx, strings.NewReader(""), bare("HOLDFAST_URL="+url), "tail") // it goes on
			c.says(want)
			end()
			c.wait()
		})
	}
}

// Status without a name says that locks are taken elsewhere; what only reads goes on.
func TestStatusOfAReplica(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.environ = []string{"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=" + s.url}
	tell(t, strings.TrimPrefix(s.url, "unix://"), "EVAL \"for i = 1, 15000 do redis.call('SET', i, 1) end return redis.status_reply('OK')\" 0")
	tell(t, strings.TrimPrefix(s.url, "unix://"), "REPLICAOF 127.0.0.1 1")
	const want = "the server is read-only, so no lock can be taken there: it is a replica"
	got := s.run("status")
	got.want(t, output.ExitUnreachable, want)
	if !strings.Contains(got.stdout, "role        slave") {
		t.Errorf("got %q, want what is known of the server too", got.stdout)
	}
	s.run("run", "-w", "1s", "job", "true").want(t, output.ExitUnreachable, want)
	s.run("ls").want(t, 0, "nothing is locked")
	s.run("status", "job").want(t, 0)
	begun := time.Now()
	s.run("ls", "--pace", "20").want(t, 0, "nothing is locked")
	if over := time.Now(); over.Before(begun.Add(graces)) {
		t.Errorf("the list took %v, which shows nothing of longer ones", over.Sub(begun))
	}
}

// A server that accepts a connection and says nothing is named while it is waited for.
func TestFirstAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts, so that the system alone answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, line := range []string{"ls", "run job true"} {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		c := begin(t, ctx, strings.NewReader(""), bare("HOLDFAST_URL=redis://"+l.Addr().String()), strings.Fields(line)...)
		c.says("waiting for an answer of Redis at redis://" + l.Addr().String())
		end()
		c.wait()
	}
}

// What the flags are warned of is said once, however often the store is tried.
func TestWarningsAreNotRepeated(t *testing.T) {
	t.Parallel()
	got := call(t, bare(), "run", "--insecure", "-w", "1s", "-u", "rediss://u:s3cret@127.0.0.1:1", "job", "true")
	got.want(t, output.ExitUnreachable, "connection refused")
	for _, warning := range []string{"can read the password in --url", "--insecure: certificates are not verified"} {
		if n := strings.Count(got.stderr, warning); n != 1 {
			t.Errorf("it said %q %d times, want once: %s", warning, n, got.stderr)
		}
	}
}
