package dash

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/webpage"
)

// Options are the settings of a Dashboard. The zero value is read-only, and open
// to everybody who reaches it.
type Options struct {
	// BasePath is the path below which requests arrive, as "/locks/". The default
	// is "/". Links between the pages are relative, so a proxy may map them to
	// another path.
	BasePath string

	// Authorize says what a request may do. If it is nil everybody may look, and
	// nobody may force a lock. It is called for each request, from several
	// goroutines; a stream of updates asks again every ten minutes.
	Authorize func(*http.Request) Role

	// User names who made a request, for the Logger and the event log. If it is nil,
	// nobody is named.
	User func(*http.Request) string

	// AllowUnlock lets operators end the hold of somebody else.
	AllowUnlock bool

	// Forced is called after an operator has ended a hold, with what was given as the
	// reason; audit.Writer.Forced writes it to the event log.
	Forced func(name string, h admin.Holder, reason string)

	// Findings examines the store and returns what endangers its locks, for the
	// page Health. It is called when somebody opens the page, at most every 30 s,
	// and has 10 s.
	Findings func(context.Context) []Finding

	// EventLog keeps what happened; see NewEventLog. If it is nil the Dashboard
	// has one of its own.
	EventLog *EventLog

	// NamePrefix limits what is shown, and what can be forced, to names that begin
	// with it.
	NamePrefix string

	// Counters shows bare numbers as well, where the store cannot tell a latch
	// from any other number.
	Counters bool

	// Logger gets a line at level WARN for each forced unlock, done or refused. If
	// it is nil nothing is logged.
	Logger *slog.Logger
}

// Dashboard is an http.Handler; Handler makes it.
type Dashboard struct {
	options  Options
	console  *admin.Console
	base     string // begins and ends with a slash
	pages    *template.Template
	static   webpage.Files
	protect  *http.CrossOriginProtection
	log      *slog.Logger
	eventLog *EventLog
	table    table
	store    store
	views    views
	budget   budget
	findings findings

	mu       sync.Mutex
	viewers  int
	watching bool
	watcher  chan struct{} // closed when the last watcher has ended; nil if there was none
	left     time.Time     // when the last viewer left
	closed   bool
	turn     int           // of the watcher only
	read     string        // of study only: the last entry of the event log
	readAt   time.Time     // likewise: when that was
	caughtUp bool          // likewise: all that was reported before was read
	done     chan struct{} // closed by Close
}

// Handler returns the dashboard of what is locked in console's store. It does
// nothing until the first request, and nothing again some seconds after the last
// browser has left. On a store that does not tell what is locked the pages say so.
//
// It panics if console is nil.
func Handler(console *admin.Console, opts *Options) *Dashboard {
	if console == nil {
		panic("dash: Handler called with a nil Console")
	}
	d := &Dashboard{console: console, base: "/", done: make(chan struct{})}
	if opts != nil {
		d.options = *opts
	}
	if trimmed := strings.Trim(d.options.BasePath, "/"); trimmed != "" {
		d.base = "/" + trimmed + "/"
	}
	d.log = d.options.Logger
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.eventLog = d.options.EventLog
	if d.eventLog == nil {
		d.eventLog = NewEventLog()
	}
	d.table.init(d.eventLog)
	d.views.init()
	d.static = webpage.Load(staticFiles, "static")
	d.pages = loadTemplates(d.static)
	d.protect = http.NewCrossOriginProtection()
	d.protect.SetDenyHandler(http.HandlerFunc(d.crossSite))
	return d
}
