package webdemo

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
)

// Bounds of what a request may ask for.
const (
	defaultWork   = 20 * time.Second
	maxWork       = 2 * time.Minute
	defaultBuyers = 60
	maxBuyers     = 1000
	defaultItems  = 10

	maxJobs    = 32 // requests that wait for or hold the lock, of each instance
	maxViewers = 32 // browsers that are kept up to date
	maxBody    = 4 << 10
)

// defaultLease is short, so that nobody has to wait for long until the lease of a
// holder that was killed is over.
const defaultLease = 5 * time.Second

// prefix begins the names of all keys. Its hash tag keeps them in one slot of a
// cluster, with one counter of tokens, which therefore has a name to be shown.
const prefix = "{holdfast-demo}:"

// Names of locks, and of what is shown beside them. The prefix comes before.
const (
	lockName    = "lock"
	redlockName = "redlock"
	tillName    = "till"
	ledgerName  = "ledger"
	tokenName   = "holdfast:token" // the counter, see docs/redis.md
)

// keep is how long keys stay in Redis that nobody deletes. The counter of tokens is
// among them, which a program in production keeps forever: here it goes on from
// the clock of the server.
const keep = 5 * time.Minute

// Options say what to serve, and where. Out and Worker must be set.
type Options struct {
	// Access are the stores, one or an odd number of independent ones. The first
	// keeps the locks, all of them are raced for. Without any, three stand-ins are
	// started in this process; with one, three stand-ins for the race.
	Access []access.Access

	Listen string    // host:port; port 0 for any
	Out    io.Writer // gets the address

	// Worker is the command line of a process that calls Work with its standard
	// input and output, and Env its environment as in os/exec.
	Worker []string
	Env    []string

	lease time.Duration // of the lock that the instances want
}

// Check answers what is wrong with the options, nil if nothing is.
func (o *Options) Check() error {
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return fmt.Errorf("--listen: %w; use host:port, as 127.0.0.1:7071", err)
	}
	switch n := len(o.Access); {
	case n > 9 || n > 1 && n%2 == 0:
		return fmt.Errorf("%d stores: give one, or an odd number up to 9 for the race", n)
	case len(o.Worker) == 0:
		return errors.New("no command to start the instances with")
	}
	return nil
}
