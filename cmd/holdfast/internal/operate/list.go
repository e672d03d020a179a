package operate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/plural"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// ListOptions say which locks to list, and in which form.
type ListOptions struct {
	Pattern  string // matches the names to list, see Matches; "" means all
	Held     bool   // only locks with holders
	Waiting  bool   // only locks with waiters
	Counters bool   // also keys that are only a number, see admin.Filter.Counters
	Wide     bool   // each holder on a separate line
	Sort     string // the order, see Sorts; "" prints each lock when it is found, as JSON
	Limit    int    // the most locks to print; 0 prints all
	First    bool   // with Limit: read no further than needed, and print those locks that were found first
	Keys     int    // the most keys to read; 0 reads all
	Pace     int    // commands a second; 0 is as fast as the store answers
	Timeout  time.Duration
	Watch    time.Duration // the pause between two lists; 0 prints one list
}

// Sorts reports whether ListOptions.Sort can have the value `by`.
func Sorts(by string) bool { return orders()[by] != nil }

// orders returns, by value of ListOptions.Sort, the function that compares two records.
func orders() map[string]func(a, b admin.Record) int {
	return map[string]func(a, b admin.Record) int{
		"name":    func(admin.Record, admin.Record) int { return 0 },
		"kind":    func(a, b admin.Record) int { return cmp.Compare(a.Kind, b.Kind) },
		"holder":  func(a, b admin.Record) int { return cmp.Compare(output.People(a), output.People(b)) },
		"lease":   func(a, b admin.Record) int { return cmp.Compare(uint64(output.Lease(a)), uint64(output.Lease(b))) }, // a lease without an end is negative, and comes last
		"waiters": func(a, b admin.Record) int { return cmp.Compare(output.Waiters(b), output.Waiters(a)) },
	}
}

// Beginning returns the prefix of all names that match a pattern. A pattern without special
// characters is a prefix itself.
func Beginning(pattern string) string {
	end := strings.IndexAny(pattern, `*?[\`)
	if end < 0 {
		return pattern
	}
	return pattern[:end]
}

// Matches reports whether a name matches a pattern. Unlike in names of files, a * also
// matches slashes.
func Matches(pattern, name string) bool {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return strings.HasPrefix(name, pattern)
	}
	const slash = "\x00" // takes the place of "/": in path.Match a star matches all characters but slashes
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok && err == nil
}

// lister makes a list.
type lister struct {
	*ListOptions
	Session
	out    io.Writer
	shown  int
	kept   []admin.Record // the records that are sorted before they are printed
	failed error
}

// List prints the locks. With Watch it prints them again and again until ctx ends. With Watch,
// an error of the store does not end List, which prints the error below the locks that it could
// read.
func (s Session) List(ctx context.Context, o *ListOptions) error {
	if o.Watch == 0 {
		return (&lister{ListOptions: o, Session: s, out: s.Env.Stdout}).run(ctx)
	}
	for pause := time.Duration(0); retry.Sleep(ctx, pause); pause = o.Watch {
		var text bytes.Buffer
		err := (&lister{ListOptions: o, Session: s, out: &text}).run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(&text, "%s: %v\n", time.Now().Format(time.TimeOnly), err)
		} else {
			fmt.Fprintf(&text, "as of %s\n", time.Now().Format(time.TimeOnly))
		}
		home := ""
		if output.IsTerminal(s.Env.Stdout) {
			home = "\x1b[H\x1b[J"
		}
		if _, err := io.WriteString(s.Env.Stdout, home+text.String()); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (l *lister) run(ctx context.Context) error {
	if l.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Timeout)
		defer cancel()
	}
	for record, err := range l.Console.List(ctx, admin.Filter{
		NamePrefix: Beginning(l.Pattern), Keys: l.Keys, Pace: l.Pace, Counters: l.Counters,
	}) {
		switch {
		case err != nil:
			l.failed = err // only the last pair has an error
		case !l.wanted(record):
		case l.First && len(l.kept) == l.Limit:
			l.Report.Line(output.LevelNotice, fmt.Sprintf("there are more: these are the first that the scan found; --sort name reads all, and prints the first %d by name", l.Limit))
			return l.printSorted()
		case l.Sort != "":
			l.kept = append(l.kept, record)
		case l.Limit > 0 && l.shown == l.Limit:
			l.Report.Line(output.LevelNotice, fmt.Sprintf("there are more; --limit is %d", l.Limit))
			return nil
		default:
			l.shown++
			if err := l.printJSON(record); err != nil {
				return err
			}
		}
	}
	if l.Sort != "" {
		if err := l.printSorted(); err != nil {
			return err
		}
	}
	return l.incomplete(ctx)
}

func (l *lister) wanted(r admin.Record) bool {
	return Matches(l.Pattern, r.Name) && (!l.Held || r.Holders > 0) && (!l.Waiting || output.Waiters(r) > 0)
}

// incomplete returns nil if the list is complete. If the list may lack locks, it returns an
// error that says why.
func (l *lister) incomplete(ctx context.Context) error {
	err := l.failed
	switch {
	case err == nil:
		return nil
	case errors.Is(err, admin.ErrIncomplete):
		err = fmt.Errorf("the list is incomplete: holdfast read %s, and there are more; use a larger --keys", plural.Count(l.Keys, "key"))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("the list is incomplete: the scan took longer than --timeout %s", l.Timeout)
	case l.shown+len(l.kept) == 0, ctx.Err() != nil:
		return err
	default:
		err = fmt.Errorf("incomplete: %w", err)
	}
	return &output.ExitError{Code: output.ExitFailure, Err: err}
}

func (l *lister) printJSON(records ...admin.Record) error {
	for _, r := range records {
		if err := output.JSONTo(l.out).Encode(output.RecordOf(r)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) printSorted() error {
	order := orders()[l.Sort]
	slices.SortFunc(l.kept, func(a, b admin.Record) int {
		return cmp.Or(order(a, b), cmp.Compare(a.Name, b.Name))
	})
	shown := l.kept
	if l.Limit > 0 && len(shown) > l.Limit {
		if l.Watch == 0 {
			l.Report.Line(output.LevelNotice, fmt.Sprintf("there are %d more; --limit is %d", len(shown)-l.Limit, l.Limit))
		}
		shown = shown[:l.Limit]
	}
	switch {
	case l.JSON:
		return l.printJSON(shown...)
	case len(shown) == 0 && l.failed != nil:
		return nil
	case len(shown) == 0:
		return l.printNothing()
	}
	width := 0
	if !l.Wide && output.IsTerminal(l.Env.Stdout) {
		width = output.WidthOf(l.Env.Stdout)
	}
	_, err := io.WriteString(l.out, output.Table(shown, l.Wide, width))
	return err
}

// printNothing reports that no lock was found. With Watch the text takes the place of the
// list. Without Watch it is a message.
func (l *lister) printNothing() error {
	text := "nothing is locked"
	if l.Pattern != "" {
		text = fmt.Sprintf("no locked name matches %q", l.Pattern)
	}
	if info := l.Console.Info(); info.Name == "redis" && info.Layout == "" {
		text += " in Redisson's layout; --layout plain lists the locks of programs that use SET NX"
	}
	if l.Watch > 0 {
		_, err := fmt.Fprintln(l.out, text)
		return err
	}
	l.Report.Line(output.LevelNotice, text)
	return nil
}
