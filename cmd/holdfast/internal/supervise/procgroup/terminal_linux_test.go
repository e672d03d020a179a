package procgroup

import (
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/console"
)

// startOnConsole starts a program that runs script, in the foreground of a
// terminal of its own, as under a login shell.
func startOnConsole(t *testing.T, script string) *console.Console {
	t.Helper()
	cmd := exec.Command("sh", "-c", `"$0"; echo "status $?"; read line; echo "shell read <$line>"`, os.Args[0])
	cmd.Env = append(os.Environ(), "PROCGROUP_TEST_SCRIPT="+script, "GORACE=atexit_sleep_ms=0")
	return console.Start(t, 80, cmd)
}

func TestCommandReadsTheTerminal(t *testing.T) {
	c := startOnConsole(t, `echo ready; read line; echo "read <$line>"; exit 3`)
	c.Await("ready")
	c.Press("hello\n")
	c.Await("read <hello>")
	c.Await("status 3")
	c.Press("again\n")
	c.Await("shell read <again>")
}

func TestInterruptKeyEndsTheCommand(t *testing.T) {
	c := startOnConsole(t, `trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.02; done`)
	c.Await("ready")
	c.Press("\x03")
	c.Await("interrupted")
	c.Await("status 4")
	c.Press("again\n")
	c.Await("shell read <again>")
}

func TestSuspendKeyDoesNotStopTheCommand(t *testing.T) {
	c := startOnConsole(t, `echo ready; read line; echo "read <$line>"`)
	c.Await("ready")
	c.Press("\x1a")
	c.Await("suspended")
	c.Press("on\n")
	c.Await("read <on>")
	c.Await("status 0")
}
