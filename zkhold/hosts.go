package zkhold

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// dialPause is the pause after all servers were tried. The pause of the client itself would be
// a second. That is too long, because the servers may have elected a leader sooner, and because
// a holder may lose its locks in that second.
const dialPause = 250 * time.Millisecond

// hosts is a zk.HostProvider. It makes the client try all servers repeatedly, without the pause
// of the client, until the session has ended.
type hosts struct {
	zk.DNSHostProvider
	link *link
}

// Next returns the server to try next. If `pause` is true, the client pauses and checks whether
// it was closed. `pause` is true only after the session has ended.
func (h *hosts) Next() (server string, pause bool) {
	server, all := h.DNSHostProvider.Next()
	if all {
		h.link.allTried.Store(true)
	}
	return server, all && h.link.endedBy() != nil
}
