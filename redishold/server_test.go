package redishold

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func TestIncarnation(t *testing.T) {
	for _, tt := range []struct {
		name   string
		info   ServerInfo
		err    error
		id     string
		uptime time.Duration
		want   error
	}{
		{"told", ServerInfo{RunID: "a", Uptime: time.Minute}, nil, "a", 59 * time.Second, nil},
		{"just started", ServerInfo{RunID: "a"}, nil, "a", 0, nil},
		{"no right to ask", ServerInfo{}, nil, "", 0, driver.ErrRefused},
		{"cluster", ServerInfo{RunID: "a", Cluster: true}, nil, "", 0, errors.ErrUnsupported},
		{"no answer", ServerInfo{}, context.DeadlineExceeded, "", 0, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := New(&fakeConn{server: func(context.Context) (ServerInfo, error) { return tt.info, tt.err }}, nil)
			id, uptime, err := b.Incarnation(t.Context())
			if id != tt.id || uptime != tt.uptime || !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Errorf("got %q, %v, %v, want %q, %v, %v", id, uptime, err, tt.id, tt.uptime, tt.want)
			}
		})
	}
}
