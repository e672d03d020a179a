//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
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
