package operate

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// answerLimit bounds each call to the store.
const answerLimit = 10 * time.Second

// ForceOptions say which hold to end, and why.
type ForceOptions struct {
	Name   string
	Holder string // the owner of the hold, or the name of its holder; "" for any
	Token  uint64 // the fencing token of the hold; 0 for any
	Reason string // the holder gets this text, followed by the name of the user and the host
	Ask    bool   // the user must type the name of the lock on standard input

	Forced func(name string, h admin.Holder, reason string) // records the forced unlock; may be nil
}

// unlocker runs a force-unlock.
type unlocker struct {
	*ForceOptions
	Session
}

// ForceUnlock ends the hold that o names. If it did not end the hold, it returns an error.
func (s Session) ForceUnlock(ctx context.Context, o *ForceOptions) error {
	c := &unlocker{o, s}
	record, err := c.choose(ctx)
	if err != nil {
		return err
	}
	seen := time.Now()
	if c.Ask {
		if err := c.confirm(ctx, record); err != nil {
			return err
		}
	}
	if err := c.end(ctx, record.Holds[0].Holder, seen); err != nil {
		return err
	}
	return c.print(record.Holds[0])
}

// end ends the hold of the holder h, which the store returned at the time `seen`. The user may
// then have taken long to confirm, so answerLimit begins only now.
func (c *unlocker) end(ctx context.Context, h admin.Holder, seen time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if h.Remaining > 0 {
		h.Remaining = max(h.Remaining-time.Since(seen), time.Second)
	}
	reason := c.Reason + c.signature()
	err := c.Console.ForceUnlock(ctx, c.Name, h, reason)
	if errors.Is(err, driver.ErrGone) {
		return nothingDone("%w", err)
	}
	if err == nil && c.Forced != nil {
		c.Forced(c.Name, h, reason)
	}
	return err
}

// signature returns the text with the user and the host that follows the reason.
func (c *unlocker) signature() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return fmt.Sprintf(" (%s@%s)", name, cmp.Or(host, "unknown"))
}

// choose returns the record of the lock with only the hold that the options name. It returns
// an error unless exactly one hold matches.
func (c *unlocker) choose(ctx context.Context) (admin.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	records, err := c.Console.Get(ctx, c.Name)
	if err != nil {
		return admin.Record{}, err
	}
	r := records[0]
	if len(r.Holds) == 0 {
		return r, nothingDone("nobody holds %q", c.Name)
	}
	if c.Token != 0 && !slices.ContainsFunc(r.Holds, func(h admin.Hold) bool { return h.Token != 0 }) {
		return r, output.UsageError("the store does not know the token of a hold (a client reports its token after a few seconds): give --holder with the value that inspect shows")
	}
	named := r
	named.Holds, named.Holders = c.named(r.Holds), 1
	switch len(named.Holds) {
	case 1:
		return named, nil
	case 0:
		return r, c.noneNamed(r)
	default:
		return r, output.UsageError("%q has %d holders that match: give --holder with the owner of one of them: %s", c.Name, len(named.Holds), output.Owners(named.Holds))
	}
}

// named returns those of the holds that the options name. The owner of a hold is unique, but its
// name is a text that any client can choose. So a name counts only if it is the owner of no hold.
func (c *unlocker) named(holds []admin.Hold) []admin.Hold {
	is := func(h admin.Hold) bool { return c.Holder == "" || h.Owner == c.Holder }
	if !slices.ContainsFunc(holds, is) {
		is = func(h admin.Hold) bool { return slices.Contains(output.NamesOf(h), c.Holder) }
	}
	return slices.DeleteFunc(slices.Clone(holds), func(h admin.Hold) bool {
		return !is(h) || c.Token != 0 && h.Token != c.Token
	})
}

// noneNamed returns the error for options that name none of the holds of r.
func (c *unlocker) noneNamed(r admin.Record) error {
	wrong := fmt.Sprintf("%q is no holder of %q", c.Holder, c.Name)
	switch {
	case c.Holder == "":
		wrong = fmt.Sprintf("no hold of %q has the token %d", c.Name, c.Token)
	case c.Token != 0:
		wrong = fmt.Sprintf("%q is no holder of %q with the token %d", c.Holder, c.Name, c.Token)
	}
	err := fmt.Errorf("%s, which is held by %s; nothing was done", wrong, output.Owners(r.Holds))
	return &output.ExitError{Code: output.ExitFailure, Err: err}
}

// nothingDone returns an error with the status for "nothing was done".
func nothingDone(format string, args ...any) error {
	return &output.ExitError{Code: output.ExitFailure, Err: fmt.Errorf("nothing was done: "+format, args...)}
}

// confirm shows the hold and asks for the name of the lock. It returns an error if the user
// types another name.
func (c *unlocker) confirm(ctx context.Context, r admin.Record) error {
	h := r.Holds[0]
	var p output.Page
	p.Line("name", "%s", output.Clean(r.Name))
	p.Line("kind", "%s", r.Kind)
	p.Holds(r)
	p.Waiters(r)
	p.Line("", "")
	if !h.Kept() {
		fmt.Fprintln(&p, "This does not stop the holder. Until the holder notices, only fencing tokens protect the data.")
	}
	if !h.Kept() && h.Remaining >= 0 && h.Remaining < 10*time.Second {
		fmt.Fprintf(&p, "The lease ends in %s if the holder does not renew it. If the holder is dead, waiting is safer.\n", output.Coarse(h.Remaining))
	}
	fmt.Fprint(&p, "Type the name of the lock to end this hold: ")
	if _, err := io.WriteString(c.Env.Stderr, p.String()); err != nil {
		return err
	}
	answer, err := output.Typed(ctx, func() (string, error) { return bufio.NewReader(c.Env.Stdin).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(c.Env.Stderr)
		return err
	}
	if answer = strings.TrimRight(answer, "\r\n"); answer != c.Name && answer != output.Clean(c.Name) {
		return nothingDone("the typed name is not %q", c.Name)
	}
	return nil
}

// forcedJSON is what force-unlock --json prints.
type forcedJSON struct {
	Version int         `json:"version"`
	Event   string      `json:"event"` // always "forced"
	Name    string      `json:"name"`
	Reason  string      `json:"reason"`
	At      time.Time   `json:"at"`
	Hold    output.Hold `json:"hold"`
}

func (c *unlocker) print(h admin.Hold) error {
	if c.JSON {
		return output.JSONTo(c.Env.Stdout).Encode(forcedJSON{output.JSONVersion, "forced", c.Name, c.Reason, time.Now(), output.HoldOf(h)})
	}
	_, err := fmt.Fprintf(c.Env.Stdout, "ended the hold of %s on %q\n", output.Person(h.Owner, h.Note, h.Client), c.Name)
	return err
}
