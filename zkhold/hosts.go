package zkhold

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// dialPause is how long the client waits when it has tried all servers. By itself it would
// wait for a second, in which a holder may lose its locks: servers that elect a leader take
// about as long.
const dialPause = 250 * time.Millisecond

// hosts makes the client try all servers repeatedly, without the client's own pause, until
// the session has ended.
type hosts struct {
	zk.DNSHostProvider
	link *link
}

// Next returns the server to try next. With pause the client pauses, and checks whether it
// was closed.
func (h *hosts) Next() (server string, pause bool) {
	server, all := h.DNSHostProvider.Next()
	if all {
		h.link.allTried.Store(true)
	}
	return server, all && h.link.hasEnded()
}
