package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const inspectLong = `Inspect shows all that the store keeps of the lock NAME: its kind, its holder with the
reentry count and the hold time, its waiters, and its keys.

Clients of Holdfast publish their fencing token, hold time and waits after a few
seconds; other clients do not.

Exit status: 0, also if the name is free; 64, 69, 77 as run.`

// lookLimit bounds commands that ask one question.
const lookLimit = 10 * time.Second

func newInspectCommand(env environment) *cobra.Command {
	o := &readOptions{}
	cmd := &cobra.Command{
		Use:                   "inspect [flags] NAME",
		Short:                 "Show everything about a lock",
		Long:                  inspectLong,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeNames(env, o),
		Args:                  oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.read(cmd.Context(), cmd.Flags(), env, func(ctx context.Context, l *reader) error {
				detail, err := l.console.Describe(ctx, o.name)
				if err != nil {
					return err
				}
				if l.options.json {
					return jsonTo(env.stdout).Encode(detailOf(detail))
				}
				return printDetail(env.stdout, detail)
			})
		},
	}
	o.addTo(cmd.Flags(), lookLimit)
	return cmd
}

// detailJSON is a admin.Detail as programs read it.
type detailJSON struct {
	recordJSON
	Token uint64    `json:"token,omitempty"`
	Keys  []keyJSON `json:"keys"`
}

type keyJSON struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	LeaseMS int64  `json:"remaining_ms"`
	Value   string `json:"value"`
}

func detailOf(d admin.Detail) detailJSON {
	j := detailJSON{recordJSON: recordOf(d.Record).with(d.Waits), Token: d.Token, Keys: []keyJSON{}}
	for _, k := range d.Keys {
		j.Keys = append(j.Keys, keyJSON{k.Name, k.Type, leaseOf(k.Remaining), k.Value})
	}
	return j
}

// page is text for people, a name and a value on each line.
type page struct{ strings.Builder }

func (p *page) line(name, format string, args ...any) {
	fmt.Fprintf(p, "%-12s%s\n", name, fmt.Sprintf(format, args...))
}

func printDetail(w io.Writer, d admin.Detail) error {
	var p page
	p.line("name", "%s", clean(d.Name))
	switch d.Kind {
	case "":
		p.line("state", "free")
	case admin.KindOther:
		p.line("state", "in use for something that is no lock")
	default:
		p.line("kind", "%s", d.Kind)
		p.state(d)
	}
	p.holds(d.Record)
	p.waiters(d.Record)
	p.waits(d.Waits)
	if d.Listeners >= 0 {
		p.line("listening", "%s", plural(d.Listeners, "client"))
	}
	p.keys(d.Keys)
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *page) state(d admin.Detail) {
	switch d.Kind {
	case admin.KindSemaphore:
		if d.Permits == 0 {
			p.line("permits", "unknown")
			break
		}
		p.line("permits", "%d, %d of them free", d.Permits, d.Free)
	case admin.KindCounter, admin.KindLatch:
		p.line("count", "%d", d.Count)
	}
	if d.Token > 0 {
		p.line("token", "%d, the last one that was drawn", d.Token)
	}
	if d.Holders != 1 || len(d.Holds) != 1 {
		p.line("holders", "%d", d.Holders)
	}
}

func (p *page) holds(r admin.Record) {
	for _, h := range r.Holds {
		label := "held by"
		if h.Kept() {
			label = "state"
		}
		p.line(label, "%s", holderOf(h))
		p.line("  owner", "%s", clean(h.Owner))
		if h.Client.Program != "" {
			p.line("  process", "%s on %s, pid %d%s", clean(h.Client.Program), clean(h.Client.Host), h.Client.PID, startedText(h.Client.Started))
		}
		if h.Mode != driver.Exclusive {
			p.line("  mode", "%s", h.Mode)
		}
		if h.Token > 0 {
			p.line("  token", "%d", h.Token)
		}
		if h.HeldFor > 0 {
			p.line("  held for", "%s", coarse(h.HeldFor))
		}
		p.line("  count", "%d", h.Holds)
		p.line("  lease", "%s", leaseText(h.Remaining))
	}
	if more := r.Holders - len(r.Holds); more > 0 && len(r.Holds) > 0 {
		p.line("", "and %d more", more)
	}
}

func startedText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return ", started " + at.Local().Format(time.DateTime)
}

func (p *page) waiters(r admin.Record) {
	for i, w := range r.Waiters {
		p.line("waiter "+strconv.Itoa(i+1), "%s, %s left in its place", person(w.Owner, w.Note, w.Client), leaseText(w.Remaining))
	}
	if more := r.Waiting - len(r.Waiters); more > 0 {
		p.line("", "and %d more", more)
	}
}

// waits names the waiters without a place in a queue.
func (p *page) waits(waits []admin.ClientWait) {
	for _, w := range waits {
		p.line("waiting", "%s", waitText(w))
	}
}

// waitText is a client that waits, for people.
func waitText(w admin.ClientWait) string {
	text := person("", w.Client.Note, w.Client) + " for " + coarse(w.Waited).String()
	if w.Count > 1 {
		text += ", " + plural(w.Count, "goroutine")
	}
	if w.Mode == driver.Shared {
		text += ", to read"
	}
	return text
}

// keys prints keys as they are; the values come escaped.
func (p *page) keys(keys []admin.Key) {
	for _, k := range keys {
		p.line("key", "%s (%s, %s)", clean(k.Name), clean(k.Type), leaseText(k.Remaining))
		for line := range strings.Lines(k.Value) {
			p.line("", "  %s", clean(strings.TrimSuffix(line, "\n")))
		}
	}
}
