// Package anystore has an entry for each kind of store that is no Redis: how a test starts
// its server, how clients reach it, and what suites have to know of it. The entry of a kind is
// a file of its own.
package anystore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
)

// All returns the entries of all kinds of stores that are no Redis.
func All() []*Kind { return []*Kind{Etcd(), ZooKeeper(), PostgreSQL(), MariaDB(), MySQL()} }

// Unlike returns the entries of All whose Backends are of different types: of those that share
// a column of the README, the first.
func Unlike() (kinds []*Kind) {
	for _, k := range All() {
		if !slices.ContainsFunc(kinds, func(other *Kind) bool { return other.Column == k.Column }) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Named returns the kind of that name.
func Named(name string) (*Kind, error) {
	for _, k := range All() {
		if k.Name == name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("no store %q", name)
}

// Names returns the names of all kinds.
func Names() (names []string) {
	for _, k := range All() {
		names = append(names, k.Name)
	}
	return names
}

// Kind is a kind of store.
type Kind struct {
	Name    string // of subtests and folders, and in flags
	Title   string // what people call the store
	Column  string // the head of its column in the README; kinds may share one
	Command string // what the command calls the store

	// Run starts a server with its data in dir. The caller must call Close of the Store, and
	// dir is the caller's to remove.
	Run func(dir string) (*Store, error)
	// Cluster starts three servers that elect a leader, until t ends. It is nil if there are
	// none.
	Cluster func(t testing.TB) Cluster
	// New returns a Backend without a client: it fails as soon as it asks its store.
	New func() driver.Backend

	Dial    Open // gives up a connection that is silent, and connects again soon
	Default Open // with the pool and the settings that the client library has by default
	Crowd   Open // with as many connections as it needs
	// Locker returns a Locker by the short constructor of the store, over a client of its own,
	// and how to close what is below it.
	Locker func(addr string, opts *holdfast.Options) (l *holdfast.Locker, shut func(), err error)
	// Lossy returns clients that lose a fifth of the answers.
	Lossy func() *Losses
	// Counted returns clients of a server whose calls of Renew are counted.
	Counted func(s *Store) Counted
	// Ask connects as another program does, and asks for something.
	Ask func(ctx context.Context, addr string) error
	// Bounds are those of a crowd of clients that wait.
	Bounds func(manytest.Crowd) manytest.Bounds

	// Refusals are the ways in which a store can be made to refuse its clients for a while.
	Refusals []Refusal

	// Unwell starts servers that give no locks, until t ends. The function ready has the command
	// take a lock at a URL, once. It is nil if there are none.
	Unwell func(t *testing.T, ready func(url string)) []Unwell

	// Page does what the page of the store says, and fails t if that is not true. It is nil if
	// there is none.
	Page func(t *testing.T)

	// URL returns the URL of the store for the command. It is nil if the command does not open
	// the store.
	URL func(addr string) string
	// ReleaseURL returns its URL for the programs of users in package release. It is nil if
	// these do not open the store.
	ReleaseURL func(addr string) string

	Database    bool // a claim is a row: a late call may take a lock, and is undone a second later
	Queues      bool // a waiter has a place, which outlives it by its lease
	TryQueues   bool // a TryLock that is refused has a place too, for a moment
	TwoThirds   bool // a lock counts as held for two thirds of a session
	NoRemaining bool // the store does not show what is left of a lease

	Late     time.Duration // how much later than its TTL the server may end a claim
	Silences time.Duration // a session that outlives two silent connections, if that takes more than others have

	// Elsewhere are the faults of package matrix whose test is in another folder.
	Elsewhere []Elsewhere
	// Without are the faults of package matrix that the store has no test for, with the reason;
	// Untested is one.
	Without map[string]string
}

// Open returns a Backend with a client of its own over the store at addr, and how to close
// what is below it. Of a store with sessions ttl is theirs.
type Open func(addr string, ttl time.Duration) (b driver.Backend, shut func(), err error)

// Losses are clients that lose answers.
type Losses struct {
	Open Open
	Lost func() int // answers, so far
	Heal func()     // ends the losses
}

// Counted are clients whose requests are counted.
type Counted struct {
	Open     Open
	Requests func() int // so far
	Each     int        // requests of a call of Renew
}

// Unwell is a server that gives no locks.
type Unwell struct {
	State, URL string
	Says       string // a regular expression: what every command says of it
	Status     int    // the exit status of a command that asks for a lock
	Looks      bool   // commands that only look may succeed
}

// Refusal is a way in which a store refuses its clients for a while.
type Refusal struct {
	What string
	// Start starts a server that does not refuse them yet, until t ends. ttl is that of sessions.
	Start func(t *testing.T, ttl time.Duration) Refusing
}

// Refusing is a server that can be made to refuse its clients.
type Refusing struct {
	Open           func() driver.Backend // with a client that t closes
	Refuse, Repair func()
}

// Cluster is several servers.
type Cluster struct {
	Addr       string       // of all, for Open
	KillLeader func() error // ends it at once
}

// Elsewhere is a fault of package matrix, which a test of another folder has.
type Elsewhere struct {
	Fault    string
	Want     string // the letters of the outcome
	Test     string // "folder.Test"
	Notified string // when the older of two holders is notified, at the latest
}

// Untested says that nobody has tested a fault.
const Untested = "unchecked"

// Session returns the TTL of sessions in which a lock counts as held for lease.
func (k *Kind) Session(lease time.Duration) time.Duration {
	if k.TwoThirds {
		return lease * 3 / 2
	}
	return lease
}

// Start runs a server for t, with a folder of its own, and stops it when t ends. Where its
// program is missing, t is skipped, or fails if the environment variable CI is set.
func (k *Kind) Start(t testing.TB) *Store {
	t.Helper()
	s, err := k.Run(t.TempDir())
	OrSkip(t, err)
	t.Cleanup(s.Close)
	return s
}

// OrSkip ends t if err is not nil. It skips t if the program of a store is missing, unless the
// environment variable CI is set.
func OrSkip(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Server is what a test breaks of a store.
type Server interface {
	Kill()          // ends it at once
	Restart() error // starts it again, with its data
	Pause() error   // stops its processes, until Resume
	Resume() error  // lets them go on
}

// Store is one server, which keeps what it acknowledged over a crash.
type Store struct {
	Server
	*Kind
	Addr  string                                              // "host:port"
	Held  func(context.Context) ([]string, error)             // the names of all claims: of holders and, where it queues, of waiters
	Kept  func(ctx context.Context, name string) (int, error) // how many entries it keeps for a name; nil for a database, whose rows stay
	Cost  func() (Cost, error)                                // what clients have cost it
	Close func()
}

// Cost is what the clients of a server cost it.
type Cost struct {
	Requests    int // so far
	Numbers     int // of transactions that were drawn so far
	Connections int
	Busy        int // of what clients ask for
}

// ErrMissing says that the program of a store is not there.
var ErrMissing = errors.New("the store is not there")

// Left returns the names of claims that contain mark.
func (s *Store) Left(mark string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	names, err := s.Held(ctx)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, name := range names {
		if strings.Contains(name, mark) {
			left = append(left, name)
		}
	}
	return left, nil
}
