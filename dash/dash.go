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
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/webpage"
)

// Options are the settings of a Dashboard. The zero value is read-only, and open to
// everybody who can reach it.
type Options struct {
	// BasePath is the path of the dashboard, such as "/locks/". The default is "/". Links
	// between the pages are relative, so a proxy may map them to another path.
	BasePath string

	// Store is the name of the store on each page and in the title: "production", or an
	// address without a password. The default is the name of the backend, such as "redis".
	Store string

	// Authorize returns the role of a request. If it is nil, everybody is a Viewer. It is
	// called for each request, from several goroutines at once, and every ten minutes for a
	// stream of updates.
	Authorize func(*http.Request) Role

	// User returns the name of the user of a request, for the Logger and the event log.
	// If it is nil, there is no name.
	User func(*http.Request) string

	// AllowUnlock lets operators end holds by force.
	AllowUnlock bool

	// Forced is called after an operator has ended a hold, with the reason.
	// audit.Writer.Forced is such a function.
	Forced func(name string, h admin.Holder, reason string)

	// Findings checks the store and returns the findings for the page Health. It is called
	// when a browser opens the page, at most every 30 s. Its context ends after 10 s at the
	// latest.
	Findings func(context.Context) []Finding

	// EventLog is the event log of the dashboard; see NewEventLog. If it is nil, the
	// Dashboard makes one.
	EventLog *EventLog

	// NamePrefix limits the dashboard to names with this prefix.
	NamePrefix string

	// Counters also shows bare numbers, if the store cannot distinguish a latch from
	// another number.
	Counters bool

	// Link is one more entry of the navigation, to a page of the program that serves the
	// dashboard. If its Title is empty, there is no such entry.
	Link Link

	// Logger gets a line at level WARN for each forced unlock, also for refused ones.
	// Default: no log.
	Logger *slog.Logger
}

// Link is an entry of the navigation. Address is relative to Options.BasePath.
type Link struct {
	Title, Address string
}

// Dashboard is an http.Handler; Handler returns one.
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
	polled   int           // of the watcher only: the index of the next name to poll
	done     chan struct{} // closed by Close
}

// Handler returns the dashboard of the store of console. It begins to poll with the first
// request, and stops some seconds after the last browser has left. If the store cannot
// list its locks, the pages say so. opts may be nil.
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
	d.table.first = make(chan struct{})
	d.table.Observer = observe.New(console, &observe.Options{Names: mostNames, Reasons: d.reasons})
	d.views.init()
	d.static = webpage.Load(staticFiles, "static")
	d.pages = loadTemplates(d.static)
	d.protect = http.NewCrossOriginProtection()
	d.protect.SetDenyHandler(http.HandlerFunc(d.crossSite))
	return d
}
