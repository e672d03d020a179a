package dial

import (
	"context"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// url returns t as a URL without passwords.
func (t Target) url() string {
	if t.Socket != "" {
		return (&url.URL{Scheme: "unix", Path: t.Socket}).String()
	}
	u := url.URL{Scheme: "redis", Host: strings.Join(t.Seeds, ",")}
	if t.TLS != nil {
		u.Scheme = "rediss"
	}
	switch t.Topology {
	case redistest.Sentinel:
		u.Scheme += "+sentinel"
		u.Path = "/" + redistest.MasterName
	case redistest.Cluster:
		u.Scheme += "+cluster"
	}
	return u.String()
}

func (t Target) rueidis(ctx context.Context) (redishold.Conn, func(), error) {
	c, err := rueidisconn.Open(ctx, t.url(), &rueidisconn.Options{
		Username: t.Username, Password: t.Password, SentinelPassword: t.SentinelPassword,
		TLS: t.TLS, Dial: t.dial, DialTimeout: timeout,
	})
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}
