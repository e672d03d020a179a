//go:build unix

package cli

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/await"
)

// A store that refuses is not unreachable: the status says so, also where the
// answer comes after --wait is over. A nanosecond always is; that the answer comes at
// all within the least time of an attempt is certain on no machine; so there is a loop.
func TestRefusalAfterTheWait(t *testing.T) {
	for name, test := range map[string]struct {
		command string // what makes the server refuse
		code    int
		text    string
	}{
		"no right": {"ACL SETUSER default -evalsha -eval", 77, "NOPERM"},
		"mismatch": {"SET job data", 64, "the store has a string under that name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := realSite(t)
			s.environ = []string{"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=" + s.url}
			tell(t, strings.TrimPrefix(s.url, "unix://"), test.command)
			for _, args := range [][]string{{"run", "--wait", "1ns", "job", "true"}, {"hold", "--wait", "1ns", "job"}} {
				var got result
				for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
					got = s.run(args...)
					if got.code != output.ExitUnreachable {
						break
					}
				}
				got.want(t, test.code, test.text)
			}
		})
	}
}

// A permission is missing for a while. The leader loses its lock, and campaigns again; the
// candidate goes on, and so does a waiter. A command that has never been answered ends.
func TestRefusalOfSeconds(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.environ = []string{"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=" + s.url}
	socket := strings.TrimPrefix(s.url, "unix://")
	terms := filepath.Join(t.TempDir(), "terms")
	elect := []string{"elect", "-t", "2s", "leader", "--", "sh", "-c", "echo term >>" + terms + "; exec sleep 100"}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	candidates := []*calling{
		begin(t, ctx, strings.NewReader(""), s.environ, elect...),
		begin(t, ctx, strings.NewReader(""), s.environ, elect...),
	}
	begun := func(n int) func() bool {
		return func() bool {
			text, _ := os.ReadFile(terms)
			return strings.Count(string(text), "term") >= n
		}
	}
	await.Until(t, 20*time.Second, "the first term", begun(1))
	if _, err := s.locker("somebody").Lock(ctx, "job", holdfast.FixedLease(4*time.Second)); err != nil {
		t.Fatal(err)
	}
	waiter := begin(t, ctx, strings.NewReader(""), s.environ, "run", "-t", "2s", "job", "--", "true")
	waiter.saysIn(10*time.Second, "waiting for lock")

	tell(t, socket, "ACL SETUSER default -evalsha -eval")
	for _, c := range candidates {
		c.saysIn(20*time.Second, "the store does not grant it: redis refuses \"leader\": NOPERM")
	}
	waiter.saysIn(20*time.Second, "the store does not grant it: redis refuses \"job\": NOPERM")
	s.run("elect", "other", "--", "true").want(t, output.ExitRefused, "NOPERM")
	tell(t, socket, "ACL SETUSER default +@all")
	await.Until(t, 20*time.Second, "a term after the repair", begun(2))
	waiter.wait().want(t, 0, "got lock")
	end()
	for _, c := range candidates {
		c.wait()
	}
}

// tell sends a command to a server on a socket, which has to say OK.
func tell(t *testing.T, socket, command string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "%s\r\n", command)
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "+OK\r\n" {
		t.Fatalf("%s: got %q, %v", command, answer, err)
	}
}
