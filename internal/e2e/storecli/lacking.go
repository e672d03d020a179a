//go:build unix

package storecli

import (
	"regexp"
	"syscall"
)

// Lacking is a Redis, or a proxy before one, that takes the commands of the scripts and
// hardly another one.
type Lacking struct {
	Login    string // of its URL, with the @
	NoScan   string // what is said of locks that cannot be found; "" where they can
	NoRights bool   // rights are what is missing
}

// RunLacking runs every command of the tool on a store that is such a Redis.
func (c *Tool) RunLacking(l Lacking) {
	c.t.Helper()
	held := c.Hold("job")
	c.Start("run", "-n", "job", "--", "true").Want(75, "is held by", "lease ends in")
	c.Start("run", "--fair", "fair", "--", "true").Want(0)
	c.Start("run", "--permits", "2", "permits", "--", "true").Want(0)
	c.Start("elect", "--once", "leader", "--", "true").Want(0)
	c.Start("status", "job").Want(75, "job: held by")
	inspect := c.Start("inspect", "job")
	inspect.Want(0, "held by", "maintenance")
	owner := regexp.MustCompile(`[0-9a-f-]{36}:\d+`).FindString(inspect.said.String())
	c.scans(l)

	waiter := c.Start("run", "-v", "job", "--", "true")
	waiter.Await(`waiting for lock "job"`)
	c.Start("force-unlock", "--yes", "--holder", owner, "--reason", "why", "job").Want(0, "ended the hold of holdfast@")
	held.Want(79, "ended by force: why")
	waiter.Want(0)
}

// scans tries what finds locks without their names.
func (c *Tool) scans(l Lacking) {
	doctor := c.Start("doctor")
	if l.NoRights {
		doctor.Want(1, "ACL SETUSER <user> +info")
	} else {
		doctor.Want(1, "Pub/Sub does not work", "it does not have the command INFO")
		doctor.Hides("ACL SETUSER")
	}
	site := c.serve("")
	if l.NoScan != "" {
		c.Start("ls").Want(77, l.NoScan)
		c.Start("tail").Want(77, l.NoScan)
		site.until("health", "did not see everything")
		return
	}
	c.Start("ls").Want(0, "job")
	tail := c.Start("tail")
	tail.Await("job")
	_ = tail.cmd.Process.Signal(syscall.SIGINT)
	tail.Want(128 + 2)
	site.until("", "job")
}
