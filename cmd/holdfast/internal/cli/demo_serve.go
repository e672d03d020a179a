package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
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
	more   []string // further --url
}

// addTo adds the flags, and lets --url be given several times.
func (o *webOptions) addTo(f *pflag.FlagSet) {
	f.BoolVar(&o.serve, "serve", false, "serve the dashboard and a page of scenes instead")
	f.StringVar(&o.listen, "listen", "127.0.0.1:7071", "address of the pages; port 0 for any")
	f.BoolVar(&o.noAuth, "insecure-no-auth", false, "let everybody use the pages who reaches --listen")
	url := f.Lookup("url")
	url.Value = &severalURLs{Value: url.Value, more: &o.more}
}

// severalURLs is the flag --url. The first URL goes to Value, and all others to more.
type severalURLs struct {
	pflag.Value
	more *[]string
}

// Set implements pflag.Value: it takes one more URL.
func (s *severalURLs) Set(text string) error {
	if s.String() == "" {
		return s.Value.Set(text)
	}
	*s.more = append(*s.more, text)
	return nil
}

// serveDemo serves the pages until a signal arrives, and returns nil then.
func serveDemo(cmd *cobra.Command, env output.Environment, c store.Connection, web webOptions) error {
	for _, name := range []string{"buyers", "items", "processes", "timeout", "look"} {
		if cmd.Flags().Changed(name) {
			return output.UsageError("--%s is not for --serve: the page asks for it", name)
		}
	}
	switch private, err := serve.Loopback(cmd.Context(), web.listen); {
	case err != nil:
		return output.UsageError("--listen %s: %w", web.listen, err)
	case !private && !web.noAuth:
		return output.UsageError("--listen %s can be reached from elsewhere, and everybody could use the page, which asks for no password: "+
			"listen on 127.0.0.1, or give --insecure-no-auth if that is meant", web.listen)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	ctx, stop := supervise.Interruptible(cmd.Context(), signals)
	defer stop()

	o := demo.PageOptions{Listen: web.listen, Out: env.Stdout, Worker: []string{self, "demo", "worker"}, Env: env.Environ}
	if o.Access, err = demoStores(ctx, c, web.more, env); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return output.UsageError("%w", err)
	}
	err = demo.Serve(ctx, o)
	var listening *net.OpError
	switch {
	case err == nil, supervise.InterruptOf(ctx) != nil:
		return nil
	case errors.As(err, &listening) && listening.Op == "listen":
		return err
	}
	return store.OpenError(ctx, open.Redis, "--url", err)
}

// demoStores returns how to reach the stores that the flags name. It returns none if the
// flags name no store: the demo then uses stand-ins. All stores get the same user, password
// and certificates.
func demoStores(ctx context.Context, c store.Connection, more []string, env output.Environment) ([]access.Access, error) {
	if c.URL == "" {
		if !c.OnlyURL() {
			return nil, output.UsageError("the stand-in needs no password and no certificates: give --url with them")
		}
		return nil, nil
	}
	if kind := store.KindOf(c.URL); kind != open.Redis {
		return nil, output.UsageError("--url: the page of --serve is about Redis, and not about %s; without --serve the demo locks there too", kind.Title())
	}
	return store.Accesses(ctx, c, "--url", slices.Concat([]string{c.URL}, more), env, output.NewReporter(env, false))
}
