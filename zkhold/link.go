package zkhold

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is a session of ZooKeeper and its connection. Each session has a client of its
// own: one that has lost its session makes a new one, and sends there what was meant for
// the old one.
type link struct {
	opts  *Options
	tasks workers
	lost  func(place)   // notified of a node of the session that somebody else has removed
	ready chan struct{} // closed when conn is usable, or err says why it is not
	conn  *zk.Conn      // not nil once ready is closed without an error
	err   error

	allTried atomic.Bool // each server was tried, twice

	opened chan struct{} // closed with the first answer of a server
	quit   chan struct{} // closed when the session is over for this process

	mu      sync.Mutex
	session int64
	timeout time.Duration // of the session
	up      bool          // connected
	down    chan struct{} // closed when the connection that was there last has broken; nil at first
	over    error         // why the session is of no use any more
	wire    *wire         // the last one
	idle    *time.Timer   // ends the session
	views   int           // calls for people under way
	nodes   map[place]*node
	watches map[string]*watch
	making  map[string]*creation // by path
	later   *time.Timer          // watches nodes that have been there for a while; nil if all are
}

// connect begins to open a session.
func (s *store) connect() *link {
	l := &link{
		opts: &s.opts, lost: s.lost,
		ready: make(chan struct{}), opened: make(chan struct{}), quit: make(chan struct{}),
		timeout: s.opts.TTL, nodes: make(map[place]*node), watches: make(map[string]*watch), making: make(map[string]*creation),
	}
	l.tasks = workers{calls: &s.tasks, goroutines: &s.clients, next: make(chan func()), quit: l.quit}
	s.clients.Go(func() {
		// Twice: there is a pause when all were tried.
		conn, events, err := zk.Connect(append(slices.Clone(s.servers), s.servers...), s.opts.TTL,
			zk.WithHostProvider(&hosts{link: l}), zk.WithDialer(l.dial), zk.WithEventCallback(l.event), zk.WithLogger(silent{}), zk.WithLogInfo(false))
		if err != nil {
			l.err = refused("the servers of ZooKeeper", err)
			close(l.ready)
			return
		}
		l.conn = conn
		l.start()
		<-l.quit
		conn.Close() // waits for an answer, a second at most
		l.hangUp()
		for range events { // until the client has ended
		}
	})
	return l
}

// start authenticates as soon as there is a session.
func (l *link) start() {
	defer close(l.ready)
	select {
	case <-l.opened:
	case <-l.quit:
		return
	}
	for _, a := range l.opts.Auth {
		if l.err = errorOf(l.conn.AddAuth(a.Scheme, []byte(a.Auth))); l.err != nil {
			return
		}
	}
}

// silent is a zk.Logger.
type silent struct{}

// Printf does nothing: what went wrong is in the errors of the calls.
func (silent) Printf(string, ...any) {}

// dial opens a connection.
func (l *link) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	dial := net.DialTimeout
	if l.opts.Dial != nil {
		dial = l.opts.Dial
	}
	if l.allTried.Swap(false) {
		select {
		case <-time.After(dialPause):
		case <-l.quit:
		}
	}
	if l.isOver() {
		return nil, net.ErrClosed
	}
	conn, err := dial(network, address, timeout)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, in: bufio.NewReader(conn), link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wire = w
	return w, nil
}

// hangUp closes the connection to a server that does not answer.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wire != nil {
		_ = l.wire.Close()
	}
}

// greeted takes note of what the server says of the session. Another one than before says
// that ours has expired; 0 says that, too.
func (l *link) greeted(session int64, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == 0 && session != 0 {
		l.session, l.timeout = session, timeout
	}
	if session != l.session {
		l.end(errExpired)
	}
}

func (l *link) sessionTime() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timeout
}

// event is called by the client with all that happens, in the order in which it does:
// the answer to a call comes after the events before it.
func (l *link) event(e zk.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Type != zk.EventSession:
		if w := l.watches[e.Path]; w != nil && e.Type == zk.EventNodeDeleted {
			if w.deleted = true; w.own.id != "" {
				l.lost(w.own)
			}
		}
		l.fire(e.Path, nil)
	case e.State == zk.StateHasSession:
		l.up, l.down = true, make(chan struct{})
		select {
		case <-l.opened:
			l.restored()
		default:
			close(l.opened)
		}
	case e.State == zk.StateExpired:
		l.end(errExpired)
	case e.State == zk.StateDisconnected, e.State == zk.StateConnecting:
		if l.up {
			close(l.down)
		}
		l.up = false
	}
}

// broken returns a channel that is closed when there is no connection any more.
func (l *link) broken() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// restored takes note of a connection that came after another: what was watched may have
// changed, and what could not be removed is removed now. The mutex is held.
func (l *link) restored() {
	for path := range l.watches {
		l.fire(path, nil)
	}
	for at, n := range l.nodes {
		if n.doomed {
			l.tasks.Go(func() { _, _ = with(context.Background(), l, at, func(*node) (any, error) { return nil, nil }) }) // removes it
		}
	}
}

// end says that the session is of no use any more. The mutex is held.
func (l *link) end(why error) {
	if l.over != nil {
		return
	}
	l.over = why
	close(l.quit)
	for _, timer := range []*time.Timer{l.idle, l.later} {
		if timer != nil {
			timer.Stop()
		}
	}
	for path := range l.watches {
		l.fire(path, nil)
	}
}

// close ends the session.
func (l *link) close(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(why)
}

// id returns the number of the session, 0 while there is none.
func (l *link) id() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// usable returns an error if calls would not be sent now: what waits for a connection
// would be sent when nobody expects it any more.
func (l *link) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state()
}

// state is usable where the mutex is held.
func (l *link) state() error {
	select {
	case <-l.ready:
	default:
		return errDisconnected
	}
	if l.over == nil && !l.up {
		return errDisconnected
	}
	return l.over
}

// call sends something, and takes note of a session that has expired.
func (l *link) call(send func() error) error {
	if err := l.usable(); err != nil {
		return err
	}
	err := send()
	if errors.Is(err, zk.ErrSessionExpired) {
		l.close(errExpired)
	}
	return err
}

// sync asks the leader, which knows whether the session lives. It returns for how long
// it does at least.
func (l *link) sync(ctx context.Context) (time.Duration, error) {
	return do(ctx, &l.tasks, func() (time.Duration, error) {
		err := l.call(func() error {
			late := time.AfterFunc(answerTimeout(l.sessionTime()), l.hangUp)
			defer late.Stop()
			_, err := l.conn.Sync("/")
			return err
		})
		if err == nil {
			l.used()
		}
		return valid(l.sessionTime()), errorOf(err)
	})
}

// used has the session end by itself when nobody uses it for its whole time: the pings of
// the client say that the process lives, and not that anybody holds a lock.
func (l *link) used() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over != nil:
	case l.idle == nil:
		l.idle = time.AfterFunc(l.timeout, l.unused)
	default:
		l.idle.Reset(l.timeout)
	}
}

// looked is used for calls that do not say that a claim is needed still: they keep a
// session only as long as it has none.
func (l *link) looked() {
	l.mu.Lock()
	none := l.idle == nil || len(l.nodes) == 0
	l.mu.Unlock()
	if none {
		l.used()
	}
}

// unused ends the session, which nobody has used for its whole time. One without claims
// stays while a call for people is under way, which may take longer than that.
func (l *link) unused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil && l.views > 0 && len(l.nodes) == 0 {
		l.idle.Reset(l.timeout)
		return
	}
	l.end(errExpired)
}

// viewing takes note that so many more calls for people are under way.
func (l *link) viewing(more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.views += more
}

// valid is for how long a session of that time lives at least after an answer of the
// leader, as the package comment says.
func valid(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// do runs call, which knows no contexts, until ctx ends. It goes on then.
func do[T any](ctx context.Context, tasks *workers, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	tasks.Go(func() {
		var a answer
		a.value, a.err = call()
		done <- a
	})
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (l *link) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over != nil
}
