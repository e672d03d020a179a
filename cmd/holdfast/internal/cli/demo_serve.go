package cli

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
)

// webOptions are the flags of demo --serve.
type webOptions struct {
	serve  bool
	listen string
	noAuth bool
}

func (o *webOptions) addTo(f *pflag.FlagSet) {
	f.BoolVar(&o.serve, "serve", false, "serve the dashboard and a page of scenes instead")
	f.StringVar(&o.listen, "listen", "127.0.0.1:7071", "address of the pages; port 0 means any free port")
	f.BoolVar(&o.noAuth, "insecure-no-auth", false, "let everybody use the pages, without authentication")
}

// serveDemo serves the pages until a signal arrives. Then it returns nil.
func serveDemo(cmd *cobra.Command, env output.Environment, c store.Connection, web webOptions) error {
	for _, name := range []string{"buyers", "items", "processes", "timeout", "look"} {
		if cmd.Flags().Changed(name) {
			return output.UsageError("--%s cannot be used with --serve: the page asks for this value", name)
		}
	}
	switch private, err := serve.Loopback(cmd.Context(), web.listen); {
	case err != nil:
		return output.UsageError("--listen %s: %w", web.listen, err)
	case !private && !web.noAuth:
		return output.UsageError("--listen %s can be reached from other machines, and everybody there could use the page, because it asks for no password: "+
			"listen on 127.0.0.1, or give --insecure-no-auth if you want that", web.listen)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := supervise.Interruptible(cmd.Context())
	defer stop()

	o := demo.PageOptions{Listen: web.listen, Out: env.Stdout, Worker: []string{self, "demo", "worker"}, Env: env.Environ}
	if o.Access, err = demoStores(ctx, c, env); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return output.UsageError("%w", err)
	}
	err = demo.Serve(ctx, o)
	var listening *net.OpError
	switch {
	case err == nil, supervise.InterruptStatus(ctx) != 0:
		return nil
	case errors.As(err, &listening) && listening.Op == "listen":
		return err
	}
	return store.OpenError(ctx, open.Redis, "--url", err)
}

// demoStores returns how to reach the servers that the flags name. If the flags name no server,
// it returns nil, and the demo uses stand-ins.
func demoStores(ctx context.Context, c store.Connection, env output.Environment) ([]open.Access, error) {
	if len(c.URLs) == 0 {
		return nil, nil
	}
	l, err := c.Locate(ctx, env, output.NewReporter(env, false))
	if err != nil {
		return nil, err
	}
	if l.Kind != open.Redis {
		return nil, output.UsageError("--url: the page of --serve works with Redis only, not with %s; leave out --serve for a demo with that store", l.Kind.Title())
	}
	return l.Servers, nil
}
