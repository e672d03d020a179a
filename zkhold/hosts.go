package zkhold

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// dialPause is how long the client waits when it has tried all servers. By itself it would
// wait for a second, in which a holder may lose its locks: servers that elect a leader take
// about as long.
const dialPause = 250 * time.Millisecond

// hosts has the client try all servers again and again, without its own pause, as long as
// the session is of use.
type hosts struct {
	zk.DNSHostProvider
	link *link
}

// Next returns the server to try next, and whether the client shall pause, and look whether
// it is to end.
func (h *hosts) Next() (server string, pause bool) {
	server, all := h.DNSHostProvider.Next()
	if all {
		h.link.allTried.Store(true)
	}
	return server, all && h.link.isOver()
}
