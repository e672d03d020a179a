package store

import (
	"context"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/redishold/doctor"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Examine returns the report about what endangers the locks of s. The parameter how has the
// TTL, the Margin, the Name and the Keys.
func (o *Connection) Examine(ctx context.Context, s *Store, how doctor.Options, env output.Environment) (*doctor.Report, error) {
	if s.Redis == nil {
		return examine.Store(ctx, s.Backend, s.Ask, &how)
	}
	locks, err := o.redisOptions(nil)
	if err != nil {
		return nil, err
	}
	how.Redis = *locks
	sentinels, err := o.sentinels(env)
	if err != nil {
		return nil, err
	}
	if sentinels != nil {
		how.Sentinels, how.Master = sentinels, sentinels.Master()
	}
	return doctor.Examine(ctx, s.Redis, &how)
}

// sentinels returns the Sentinels that the URL or the configuration names, or nil if there
// are none. They have their own passwords.
func (o *Connection) sentinels(env output.Environment) (*rueidisconn.Sentinels, error) {
	address, source, err := o.Address(env)
	if err != nil || address == "" {
		return nil, err
	}
	a := access.Access{URL: address, CACert: o.cacert, Cert: o.cert, Key: o.key, ServerName: o.sni, Insecure: o.insecure}
	if _, _, err := o.fromConfig(&a, output.Silent()); err != nil {
		return nil, err
	}
	tls, err := a.TLS()
	if err != nil {
		return nil, output.UsageError("%w", err)
	}
	options := &rueidisconn.Options{TLS: tls, DialTimeout: o.Config.Duration("redis.dial_timeout")}
	if i := a.Imported; i != nil {
		options.SentinelUsername, options.SentinelPassword = i.SentinelUsername, i.SentinelPassword
	}
	sentinels, err := rueidisconn.NewSentinels(address, options)
	if err != nil {
		return nil, output.UsageError("%s: %w", source, err)
	}
	return sentinels, nil
}
