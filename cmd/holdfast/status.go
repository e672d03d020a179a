package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/redishold"
)

const statusLong = `Status without NAME shows the server of the locks, its latency, and the layout of the
locks there. The exit status is 69 if no lock can be taken there, because the server is
read-only or no majority of the servers works, and 77 if the store refuses. "holdfast
doctor" shows what endangers locks.

Status NAME reports whether the lock is held. The exit status is 0 if it is free, of a
semaphore if a permit is free; 75 if a client holds it, 1 if the name is in use for something that is not a lock. With --quiet it
prints nothing.

Otherwise the exit status is 0; 64, 69 and 77 as run.`

const statusExample = `  holdfast status
  holdfast status deploy/prod --quiet || echo "somebody deploys"`

func newStatusCommand(env environment) *cobra.Command {
	o := &readOptions{}
	var quiet bool
	cmd := &cobra.Command{
		Use:                   "status [flags] [NAME]",
		Short:                 "Show the server, or whether a lock is held",
		Long:                  statusLong,
		Example:               statusExample,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeNames(env, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] == "" {
				return usageError("one name of a lock at most is expected; use: %s", cmd.UseLine())
			}
			if len(args) == 1 {
				o.name = args[0]
			}
			return o.read(cmd.Context(), cmd.Flags(), env, func(ctx context.Context, l *reader) error {
				if quiet {
					l.env.stdout = io.Discard
				}
				if o.name != "" {
					return l.lockStatus(ctx, o.name, quiet)
				}
				return l.serverStatus(ctx)
			})
		},
	}
	o.addTo(cmd.Flags(), lookLimit)
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	return cmd
}

func (l *reader) lockStatus(ctx context.Context, name string, quiet bool) error {
	records, err := l.console.Get(ctx, name)
	if err != nil {
		return err
	}
	r := records[0]
	if !quiet {
		err = l.printStatus(ctx, r)
	}
	switch {
	case err != nil:
		return err
	case r.Kind == admin.KindOther:
		return exit(exitFailure)
	case isHeld(r):
		return exit(exitBusy)
	default:
		return nil
	}
}

// isHeld reports that a name cannot be taken at once: of a semaphore, that no
// permit is free.
func isHeld(r admin.Record) bool {
	switch r.Kind {
	case admin.KindSemaphore:
		return r.Free <= 0
	case admin.KindMulti:
		return true
	case admin.KindCounter, admin.KindLatch:
		return r.Count <= 0
	default:
		return r.Holders+len(r.Holds) > 0
	}
}

// waitingFor returns who says that it waits without a place in the queue. A store, or
// rights, that do not tell cost nothing else.
func (l *reader) waitingFor(ctx context.Context, r admin.Record) admin.Detail {
	if r.Holders == 0 {
		return admin.Detail{}
	}
	d, err := l.console.Describe(ctx, r.Name)
	if err != nil {
		return admin.Detail{}
	}
	return d
}

func (l *reader) printStatus(ctx context.Context, r admin.Record) error {
	waiting := l.waitingFor(ctx, r)
	if l.options.json {
		return jsonTo(l.env.stdout).Encode(recordOf(r).with(waiting.Waits))
	}
	text := stateText(r)
	if r.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", r.Waiting)
	}
	for _, w := range waiting.Waits {
		text += "\n  waiting: " + waitText(w)
	}
	_, err := fmt.Fprintf(l.env.stdout, "%s: %s\n", clean(r.Name), text)
	return err
}

// stateText names the holder, and of a semaphore says first whether a permit is free.
func stateText(r admin.Record) string {
	held := fmt.Sprintf("held by %s%s, lease %s", people(r), heldFor(r), endText(lease(r)))
	permits := plural(r.Free, "permit") + " free"
	switch free := r.Kind == admin.KindSemaphore && r.Free > 0; {
	case r.Kind == admin.KindOther:
		return "in use for something that is no lock"
	case free && r.Holders > 0:
		return fmt.Sprintf("%s, %d %s", permits, r.Holders, held)
	case free:
		return permits
	case r.Holders > 0:
		return held
	case len(r.Holds) > 0:
		return people(r)
	case r.Kind != "":
		return string(r.Kind) + ", held by nobody"
	}
	return "free"
}

// endText says when a lease ends.
func endText(d time.Duration) string {
	switch {
	case d == admin.RemainingUnknown:
		return "unknown"
	case d < 0:
		return "never ends"
	}
	return "ends in " + leaseText(d)
}

// heldFor says for how long the holder of r has held it, if that is known.
func heldFor(r admin.Record) string {
	if held := heldText(r.Holds); r.Holders == 1 && held != "-" {
		return " for " + held
	}
	return ""
}

// statusJSON is the status of a server as programs read it.
type statusJSON struct {
	Version   int     `json:"version"`
	URL       string  `json:"url"` // without passwords
	Config    string  `json:"config,omitempty"`
	Store     string  `json:"store"` // redis, etcd, zookeeper, postgres or mysql
	Server    string  `json:"server"`
	Mode      string  `json:"mode,omitempty"`
	Role      string  `json:"role,omitempty"`
	Replicas  int     `json:"replicas"`
	UptimeS   int64   `json:"uptime_s,omitempty"`
	Eviction  string  `json:"eviction,omitempty"`
	Evicted   int64   `json:"evicted_keys"`
	LatencyMS float64 `json:"latency_ms"`
	Layout    string  `json:"layout,omitempty"` // of a Redis: redisson, plain or timestamp; of a table: lease or shedlock
	Prefix    string  `json:"prefix"`
	Confirms  string  `json:"confirmed_by,omitempty"` // how many replicas confirm each lock
}

func (l *reader) serverStatus(ctx context.Context) error {
	ask := l.aboutStore
	if l.store.Redis != nil {
		ask = l.aboutRedis
	}
	s, err := ask(ctx)
	if err != nil {
		return err
	}
	s.Version, s.URL, s.Config, s.Store = jsonVersion, l.store.where, l.options.config.Name(), string(l.store.Kind)
	print := s.print
	if l.options.json {
		print = func(w io.Writer) error { return jsonTo(w).Encode(s) }
	}
	return errors.Join(print(l.env.stdout), l.unusable(ctx))
}

// unusable returns why no lock can be taken in a store that answers, nil if nothing is wrong.
func (l *reader) unusable(ctx context.Context) error {
	if err := l.store.Trouble(ctx); err != nil {
		return err
	}
	_, err := l.console.Get(ctx, "holdfast:status")
	return err
}

func (l *reader) aboutRedis(ctx context.Context) (statusJSON, error) {
	info, err := l.store.Redis.Server(ctx)
	if err != nil {
		return statusJSON{}, err
	}
	latency, err := latency(func() error {
		_, err := l.console.Get(ctx, "holdfast:status")
		return err
	})
	return statusJSON{
		Server: info.Version, Mode: modeOf(info), Role: info.Role, Replicas: info.Replicas,
		UptimeS: int64(info.Uptime.Seconds()), Eviction: info.EvictionPolicy, Evicted: info.EvictedKeys,
		LatencyMS: latency, Layout: l.store.layout, Prefix: l.options.prefix, Confirms: l.options.replicas,
	}, err
}

// aboutStore is what is known of a store that is no Redis.
func (l *reader) aboutStore(ctx context.Context) (s statusJSON, err error) {
	s.Layout = l.store.Layout
	s.LatencyMS, err = latency(func() error {
		s.Server, err = l.store.Ping(ctx)
		return err
	})
	return s, err
}

func modeOf(info redishold.ServerInfo) string {
	if info.Cluster {
		return "cluster"
	}
	return "standalone"
}

// latency is how many milliseconds an answer takes: the median of a few.
func latency(ask func() error) (float64, error) {
	var took [5]time.Duration
	for i := range took {
		begun := time.Now()
		if err := ask(); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun)
	}
	return float64(median(took[:]).Microseconds()) / 1000, nil
}

func (s statusJSON) print(w io.Writer) error {
	var p page
	p.line("store", "%s", clean(s.URL))
	if s.Config != "" {
		p.line("config", "%s", s.Config)
	}
	p.line("server", "%s", s.serverText())
	if s.Role != "" {
		p.line("role", "%s, %s connected", s.Role, plural(s.Replicas, "replica"))
	}
	if s.Eviction != "" {
		warning := ""
		if s.Eviction != "noeviction" {
			warning = ": held locks may be dropped to free memory"
		}
		p.line("eviction", "%s, %s so far%s", s.Eviction, plural(s.Evicted, "key"), warning)
	}
	p.line("latency", "%.2f ms", s.LatencyMS)
	if s.Layout != "" {
		p.line("layout", "%s", s.Layout)
	}
	if s.Prefix != "" {
		p.line("prefix", "%s", clean(s.Prefix))
	}
	if n, err := strconv.Atoi(s.Confirms); err == nil && n > 0 {
		p.line("confirmed", "by %s", plural(n, "replica"))
	} else if err != nil && s.Confirms != "" {
		p.line("confirmed", "by %s replicas", s.Confirms)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

func (s statusJSON) serverText() string {
	text := orUnknown(s.Server)
	if s.Mode != "" {
		return text + ", " + s.Mode + upText(s.UptimeS)
	}
	return open.Kind(s.Store).Title() + " " + text
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown version"
	}
	return "version " + version
}

func upText(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	return ", up for " + (time.Duration(seconds) * time.Second).String()
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}
