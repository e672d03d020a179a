package open

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

// pacedDialer makes connections, and slows down a client that makes many in a short time: those
// after the first dialBurst within a second wait until that second is over. The client of etcd
// connects again at once, without its usual pauses, if a server breaks each connection after its
// greeting.
type pacedDialer struct {
	net.Dialer

	mu     sync.Mutex
	recent [dialBurst]time.Time // when the last connections were made; a ring
	next   int                  // the index of the oldest one
}

// dialBurst is how many connections a pacedDialer makes in a second. A client makes a few to each
// member when it starts.
const dialBurst = 20

// dial makes a connection to addr.
func (d *pacedDialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	d.mu.Lock()
	at := time.Now()
	if free := d.recent[d.next].Add(time.Second); free.After(at) {
		at = free
	}
	d.recent[d.next] = at
	d.next = (d.next + 1) % dialBurst
	d.mu.Unlock()
	if !retry.Sleep(ctx, time.Until(at)) {
		return nil, ctx.Err()
	}
	return d.DialContext(ctx, "tcp", addr)
}
