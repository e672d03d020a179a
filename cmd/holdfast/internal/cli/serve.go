package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// serveOptions is the command line of serve.
type serveOptions struct {
	readOptions
	serve.Options
	noAuth bool
	users  *serve.Authenticator
}

func newServeCommand(env output.Environment) *cobra.Command {
	o := &serveOptions{}
	o.goesOn = true
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Show the locks in a browser",
		Args:    noArguments,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.complete(cmd.Context(), cmd.Flags(), env) },
		RunE:    o.reads(env, o.serve),
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *serveOptions) addTo(f *pflag.FlagSet) {
	f.SortFlags = false
	o.AddStoreTo(f)
	f.StringVarP(&o.Listen, "listen", "l", "127.0.0.1:7070", "address to listen on")
	f.StringVar(&o.BasePath, "base-path", "/", "path of the pages")
	f.StringVar(&o.TLSCert, "tls-cert", "", "PEM file of the certificate that browsers see")
	f.StringVar(&o.TLSKey, "tls-key", "", "PEM file of the key of --tls-cert")
	f.StringVar(&o.BasicFile, "basic-file", "", "file of users and their passwords")
	f.StringVar(&o.TokenFile, "token-file", "", "file of names and tokens")
	f.StringVar(&o.Header, "auth-header", "", "header in which a proxy names the user")
	f.StringSliceVar(&o.Trusted, "trusted", nil, "addresses of trusted proxies, such as 10.0.0.0/8: for --auth-header and X-Forwarded-For")
	f.StringSliceVar(&o.Hosts, "host", nil, "with --auth-header: name by which browsers reach the pages")
	f.BoolVar(&o.noAuth, "insecure-no-auth", false, "let everybody read the pages, without authentication")
	f.BoolVar(&o.AllowUnlock, "allow-unlock", false, "let operators end holds by force")
	o.AddEventLogTo(f)
	f.Lookup("event-log").Usage = "record forced unlocks of operators in the event log of Redis, for tail --since and other dashboards"
	f.StringSliceVar(&o.Operators, "operator", nil, "user who may end holds, if --allow-unlock is given")
	f.StringVar(&o.Names, "names", "", "show only locks whose names begin with this text")
	f.BoolVar(&o.Counters, "counters", false, "also show keys that are only a number, such as latches")
	f.BoolVar(&o.OnlyViewed, "only-while-viewed", false, "poll only while a page is open; some events are missing then")
	f.StringVar(&o.MetricsListen, "metrics-listen", "", "another address for /metrics and /healthz, without authentication")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what happens")
}

// serveSettings returns the flags that the section "serve" of a configuration can set.
func serveSettings() []store.Setting {
	return []store.Setting{
		{Flag: "listen", Key: "serve.listen"},
		{Flag: "metrics-listen", Key: "serve.metrics_listen"},
		{Flag: "base-path", Key: "serve.base_path"},
		{Flag: "tls-cert", Key: "serve.tls.cert"},
		{Flag: "tls-key", Key: "serve.tls.key"},
		{Flag: "basic-file", Key: "serve.auth.basic_file"},
		{Flag: "token-file", Key: "serve.auth.token_file"},
		{Flag: "auth-header", Key: "serve.auth.header"},
		{Flag: "trusted", Key: "serve.auth.trusted"},
		{Flag: "host", Key: "serve.hosts"},
		{Flag: "allow-unlock", Key: "serve.allow_unlock"},
		{Flag: "operator", Key: "serve.operators"},
		{Flag: "names", Key: "serve.names"},
		{Flag: "counters", Key: "serve.counters"},
		{Flag: "only-while-viewed", Key: "serve.only_while_viewed"},
	}
}

// complete sets the options that come from the configuration, and checks all options. It
// returns an error if other machines could read the pages without authentication, unless
// --insecure-no-auth is given. Even with this flag, other machines must not be able to unlock
// without authentication.
func (o *serveOptions) complete(ctx context.Context, f *pflag.FlagSet, env output.Environment) (err error) {
	report := output.NewReporter(env, o.verbose)
	if err := o.Configure(f, env, report, serveSettings()...); err != nil {
		return err
	}
	if o.Private, err = serve.Loopback(ctx, o.Listen); err != nil {
		return output.UsageError("--listen %s: %w", o.Listen, err)
	}
	if o.users, err = serve.NewAuthenticator(&o.Options, output.AuditLogger(env), report); err != nil {
		return err
	}
	switch everybody := o.users.Open(); {
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return output.UsageError("give --tls-cert and --tls-key together")
	case strings.ContainsAny(o.BasePath, "?#\\") || strings.Contains(o.BasePath, ".."):
		return output.UsageError("--base-path %q is not a path such as /locks: it must not have ?, # or \\, and no ..", o.BasePath)
	case everybody && !o.Private && !o.noAuth:
		return output.UsageError("--listen %s can be reached from other machines, and everybody there could see the locks: "+
			"give --basic-file, --token-file or --auth-header; if you want pages without authentication, give --insecure-no-auth", o.Listen)
	case o.AllowUnlock && !everybody && len(o.Operators) == 0:
		return output.UsageError("--allow-unlock needs the names of the users who may end holds: give --operator, or the key operators below \"serve\" in the configuration")
	case o.AllowUnlock && everybody && !o.Private:
		return output.UsageError("--allow-unlock without authentication would let everybody end locks: listen on 127.0.0.1, or give --basic-file, --token-file or --auth-header")
	case !o.AllowUnlock && (f.Changed("operator") || len(o.Operators) > 0 && !f.Changed("allow-unlock")):
		return output.UsageError("--operator has no effect without --allow-unlock: give both")
	}
	o.users.WarnOfHeader(report)
	for _, file := range []string{o.BasicFile, o.TokenFile} {
		report.Exposed(config.Exposed(file, true))
	}
	if !o.Private && o.TLSCert == "" && (o.BasicFile != "" || o.TokenFile != "") {
		report.Warn("--listen %s without --tls-cert: others in the network can read the passwords; give --tls-cert, or use a proxy with TLS in front of this server", o.Listen)
	}
	return nil
}

// serve serves the pages of the store until ctx ends. The page Health does not report locks
// without an end, because the check for such locks reads all keys.
func (o *serveOptions) serve(ctx context.Context, l *reader) error {
	s := serve.Store{Console: l.Console, Where: l.store.Where, Report: l.Report}
	s.Examine = func(ctx context.Context) (*doctor.Report, error) {
		return l.store.Examine(ctx, doctor.Options{TTL: defaultTTL, Margin: defaultTTL / 10, Keys: -1}, 0)
	}
	if source, ok := l.store.Backend.(admin.Source); ok && o.EventLog {
		log := audit.New(source, &audit.Options{Note: "holdfast serve", Logger: l.logger})
		defer supervise.Flush(log)
		s.Forced = log.Forced
	}
	return serve.Serve(ctx, o.users, s)
}
