package zkhold

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// link is a session of ZooKeeper and its connection. Each session has a client of its own,
// because a client whose session has expired opens a new session. In the new session it would
// send the requests that were meant for the expired one.
type link struct {
	opts      *Options
	servers   int // the number of servers
	tasks     workers
	onRemoved func(nodeKey) // called with each node of the session that another program has deleted
	ready     chan struct{} // closed when conn is usable, or when the session has ended
	conn      *zk.Conn      // not nil after `ready` was closed, unless the session has ended

	allTried atomic.Bool // the client has tried each server, twice

	opened chan struct{} // closed with the first answer of a server
	quit   chan struct{} // closed when the session is over for this process

	mu           sync.Mutex
	session      int64
	timeout      time.Duration // the timeout of the session
	connected    bool          // there is a connection to a server
	disconnected chan struct{} // closed when the last connection has broken; nil at first
	ended        error         // why the session has ended; nil if it has not
	refusal      error         // why the last connection was closed, if the server sent what no ZooKeeper sends
	refusals     int           // how many connections in a row were closed for that reason
	wire         *wire         // the last connection
	idleTimer    *time.Timer   // ends the session if the session is not used: see touch
	adminCalls   int           // how many calls for operators are under way
	nodes        map[nodeKey]*node
	watches      map[string]*watch
	creations    map[string]*creation // the creations under way, by path
	watchTimer   *time.Timer          // calls watchNodes; nil while no call is scheduled
}

// connect begins to open a session.
func (s *store) connect() *link {
	l := &link{
		opts: &s.opts, servers: len(s.servers), onRemoved: s.notifyRemoved,
		ready: make(chan struct{}), opened: make(chan struct{}), quit: make(chan struct{}),
		timeout: s.opts.TTL, nodes: make(map[nodeKey]*node), watches: make(map[string]*watch), creations: make(map[string]*creation),
	}
	l.tasks = workers{calls: &s.tasks, goroutines: &s.clients, next: make(chan func()), quit: l.quit}
	s.clients.Go(func() {
		// The list has each server twice, so that the client tries each server twice before it
		// pauses.
		conn, events, err := zk.Connect(append(slices.Clone(s.servers), s.servers...), s.opts.TTL,
			zk.WithHostProvider(&hosts{link: l}), zk.WithDialer(l.dial), zk.WithEventCallback(l.event), zk.WithLogger(noLogger{}), zk.WithLogInfo(false))
		if err != nil {
			l.close(refused("the servers of ZooKeeper", driver.ErrInvalid, err))
			close(l.ready)
			return
		}
		l.conn = conn
		l.authenticate()
		<-l.quit
		conn.Close() // waits for an answer, a second at most
		l.closeWire()
		for range events { // until the client has ended
		}
	})
	return l
}

// authenticate sends the credentials in Options.Auth as soon as there is a session. At its end
// it closes l.ready.
func (l *link) authenticate() {
	defer close(l.ready)
	select {
	case <-l.opened:
	case <-l.quit:
		return
	}
	for _, a := range l.opts.Auth {
		if err := errorOf(l.conn.AddAuth(a.Scheme, []byte(a.Auth))); err != nil {
			l.close(err)
			return
		}
	}
}

// noLogger is a zk.Logger.
type noLogger struct{}

// Printf does nothing, because the errors of the calls say what went wrong.
func (noLogger) Printf(string, ...any) {}

// dial opens a connection, after a pause if all servers were tried.
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
	if l.endedBy() != nil {
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

// closeWire closes the connection to a server that does not answer.
func (l *link) closeWire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wire != nil {
		_ = l.wire.Close()
	}
}

// connectResponse records the session that the server names. If the server names another
// session than before, or 0, the session of the link has expired.
func (l *link) connectResponse(session int64, timeout time.Duration) {
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

// event handles an event. The client calls it for all events in their order. When a call of the
// client returns, event has handled the events that came before the reply to the call.
func (l *link) event(e zk.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Type != zk.EventSession:
		if w := l.watches[e.Path]; w != nil && e.Type == zk.EventNodeDeleted {
			if w.deleted = true; w.claim.id != "" {
				l.onRemoved(w.claim)
			}
		}
		l.fire(e.Path, nil)
	case e.State == zk.StateHasSession:
		l.connected, l.disconnected = true, make(chan struct{})
		l.refusal, l.refusals = nil, 0
		select {
		case <-l.opened:
			l.restored()
		default:
			close(l.opened)
		}
	case e.State == zk.StateExpired:
		l.end(errExpired)
	case e.State == zk.StateDisconnected, e.State == zk.StateConnecting:
		if l.connected {
			close(l.disconnected)
		}
		l.connected = false
	}
}

// refuse records why a connection was closed. If no server has opened the session, and as many
// connections as there are servers were closed so, it ends the session.
func (l *link) refuse(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = why
	l.refusals++
	if l.session == 0 && l.refusals >= l.servers {
		l.end(unsent.Error(why))
	}
}

// broken returns a channel that is closed when the connection has broken.
func (l *link) broken() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disconnected
}

// restored handles a new connection of the same session. It ends all watches, because watched
// nodes may have changed, and deletes the nodes whose deletion is pending. The caller holds the
// mutex.
func (l *link) restored() {
	for path := range l.watches {
		l.fire(path, nil)
	}
	for key, n := range l.nodes {
		if n.deletePending {
			l.tasks.Go(func() { _, _ = withNode(context.Background(), l, key, func(*node) (any, error) { return nil, nil }) }) // deletes the node
		}
	}
}

// end ends the session for this process. `why` is the reason. The caller holds the mutex.
func (l *link) end(why error) {
	if l.ended != nil {
		return
	}
	l.ended = why
	close(l.quit)
	for _, timer := range []*time.Timer{l.idleTimer, l.watchTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	for path := range l.watches {
		l.fire(path, nil)
	}
}

// close does what end does, for a caller that does not hold the mutex.
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

// usable returns an error if there is no connection now, or if the session has ended. Without
// this check, the client would keep a request for the next connection, and send it when no
// caller expects that any more.
func (l *link) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state()
}

// state does what usable does, for a caller that holds the mutex.
func (l *link) state() error {
	select {
	case <-l.ready:
	default:
		return errDisconnected
	}
	switch {
	case l.ended != nil || l.connected:
		return l.ended
	case l.refusal != nil:
		return fmt.Errorf("%w: %w", errDisconnected, l.refusal)
	}
	return errDisconnected
}

// call runs the function `send` if the link is usable. If the error of that function says that
// the session has expired, call ends the session.
func (l *link) call(send func() error) error {
	if err := l.usable(); err != nil {
		return err
	}
	err := send()
	switch {
	case errors.Is(err, zk.ErrSessionExpired):
		l.close(errExpired)
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, net.ErrClosed):
		err = l.because(err)
	}
	return err
}

// because returns err with the reason for which the connection was closed, if that is known.
func (l *link) because(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusal == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, l.refusal)
}

// sync makes a request that the leader answers, because only the leader knows whether the
// session lives. It returns for how long the session lives at least.
func (l *link) sync(ctx context.Context) (time.Duration, error) {
	return do(ctx, &l.tasks, func() (time.Duration, error) {
		err := l.call(func() error {
			late := time.AfterFunc(answerTimeout(l.sessionTime()), l.closeWire)
			defer late.Stop()
			_, err := l.conn.Sync("/")
			return err
		})
		if err == nil {
			l.touch()
		}
		return valid(l.sessionTime()), errorOf(err)
	})
}

// touch restarts idleTimer, which ends a session that was unused for as long as its timeout.
// The pings of the client show only that the process lives. They do not show that it holds a
// lock.
func (l *link) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended != nil:
	case l.idleTimer == nil:
		l.idleTimer = time.AfterFunc(l.timeout, l.expireIdle)
	default:
		l.idleTimer.Reset(l.timeout)
	}
}

// touchUnclaimed does what touch does, but it does not restart the timer of a session with
// claims. It is for calls of operators, which do not show that a claim is still needed.
func (l *link) touchUnclaimed() {
	l.mu.Lock()
	none := l.idleTimer == nil || len(l.nodes) == 0
	l.mu.Unlock()
	if none {
		l.touch()
	}
}

// expireIdle ends a session that was not used for as long as its timeout. A session without
// claims stays while a call for operators is under way, because the call may take longer than
// the timeout.
func (l *link) expireIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil && l.adminCalls > 0 && len(l.nodes) == 0 {
		l.idleTimer.Reset(l.timeout)
		return
	}
	l.end(errExpired)
}

// valid returns for how long a session with that timeout lives at least after an answer of
// the leader: see the package comment.
func valid(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// do runs the function `call`, which takes no context, and returns its result. If ctx ends
// first, do returns the error of ctx, and the function continues in the background.
func do[T any](ctx context.Context, tasks *workers, call func() (T, error)) (none T, _ error) {
	var value T
	var err error
	done := make(chan struct{})
	tasks.Go(func() {
		defer close(done)
		value, err = call()
	})
	select {
	case <-done:
		return value, err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// endedBy returns why the session has ended, or nil.
func (l *link) endedBy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}
