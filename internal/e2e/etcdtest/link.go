package etcdtest

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/e2e/cutlink"
)

// Link is what a client's connections go through, until it is cut. The zero Link is whole.
type Link struct{ cutlink.Link }

// Option has a client use the link.
func (l *Link) Option() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return l.Dial(0, func() (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		})
	})
}
