package rueidisconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

func (l *library) Ask(ctx context.Context, command ...string) redishold.Result {
	if l.nodes != nil {
		if node, ok := l.nodes.at(ctx, adapter.Destination{}, &redishold.Call{}); ok {
			return ask(ctx, node, command)
		}
	}
	return ask(ctx, l.client, command)
}

func (l *library) Servers(context.Context) (map[string]adapter.Question, error) {
	servers := map[string]adapter.Question{}
	for addr, node := range l.client.Nodes() {
		servers[addr] = func(ctx context.Context, command ...string) redishold.Result { return ask(ctx, node, command) }
	}
	return servers, nil
}

// ask sends one command. It builds the command with Arbitrary, so that rueidis does not
// repeat it.
func ask(ctx context.Context, client rueidis.Client, command []string) redishold.Result {
	answer := client.Do(withoutDeadline{ctx}, client.B().Arbitrary(command...).Build().ToPipe())
	v, err := answer.ToAny()
	if err != nil {
		return result(ctx, answer)
	}
	if text, ok := v.(string); ok {
		v = strings.TrimPrefix(text, "txt:") // rueidis does not remove this prefix of a verbatim string of RESP3
	}
	return redishold.Result{Value: v}
}

// Sentinels are the Sentinels of a URL. There is no Close: each request has its own connection.
type Sentinels struct{ target *target }

// NewSentinels returns the Sentinels that url names, or nil if url names none. It makes no
// connection. If url is invalid, it returns the error that Open would return.
func NewSentinels(url string, opts *Options) (*Sentinels, error) {
	t, err := targetOf("ask redis Sentinels", url, opts)
	if err != nil || t.Deployment != redisurl.Sentinels {
		return nil, err
	}
	return &Sentinels{target: t}, nil
}

// Master returns the name that the Sentinels have for the master.
func (s *Sentinels) Master() string { return s.target.Master }

// Servers returns, by the address of each Sentinel, a function that sends a command to that
// Sentinel. See doctor.Asker.
func (s *Sentinels) Servers(context.Context) (map[string]func(ctx context.Context, command ...string) redishold.Result, error) {
	servers := map[string]func(context.Context, ...string) redishold.Result{}
	for _, addr := range s.target.Addrs {
		servers[addr] = func(ctx context.Context, command ...string) redishold.Result {
			return s.askOne(ctx, addr, command)
		}
	}
	return servers, nil
}

// askOne sends a command to the Sentinel at addr, over a connection that ends with ctx.
func (s *Sentinels) askOne(ctx context.Context, addr string, command []string) redishold.Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := rueidis.NewClient(s.target.sentinelOption(ctx, addr))
	if reply, refused := rueidis.IsRedisErr(err); refused {
		return redishold.Result{Err: &redishold.ReplyError{Text: reply.Error()}}
	}
	if err != nil {
		return redishold.Result{Err: unsent.Error(fmt.Errorf("redis Sentinel at %s: %w", addr, err))}
	}
	defer client.Close()
	return adapter.Answer(ctx, func() redishold.Result { return ask(ctx, client, command) })
}

// sentinelOption returns the settings for a connection to one Sentinel. The connection is
// closed when ctx ends.
func (t *target) sentinelOption(ctx context.Context, addr string) rueidis.ClientOption {
	option := t.option
	option.InitAddress = []string{addr}
	option.ForceSingleClient = true
	option.Username, option.Password, option.SelectDB = t.option.Sentinel.Username, t.option.Sentinel.Password, 0
	option.Sentinel = rueidis.SentinelOption{}
	option.DialCtxFn = func(_ context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := t.transport.make(ctx, addr, d, config)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	return option
}
