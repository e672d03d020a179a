package dash

import (
	"context"
	"embed"
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

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// Options are the settings of a Dashboard. With the zero value, the dashboard is read-only, and
// everybody who can reach it can read it.
type Options struct {
	// BasePath is the path of the dashboard, such as "/locks/". The default is "/". Links
	// between the pages are relative, so a proxy may serve the pages at another path.
	BasePath string

	// Store is the name of the store on each page and in the title: "production", or an
	// address without a password. The default is the name of the backend, such as "redis".
	Store string

	// Authorize returns the role of a request. If Authorize is nil, everybody is a Viewer. The
	// dashboard calls it for each request, from several goroutines at once. A stream of
	// updates ends after ten minutes. The browser then sends a new request, for which
	// Authorize is called again.
	Authorize func(*http.Request) Role

	// User returns the name of the user of a request, for the Logger and the event log. If
	// User is nil, users have no names.
	User func(*http.Request) string

	// AllowUnlock lets operators end holds by force.
	AllowUnlock bool

	// Forced is called after an operator has ended the hold h of the lock `name`. The
	// parameter `reason` is the reason that the holder gets. audit.Writer.Forced is such a
	// function.
	Forced func(name string, h admin.Holder, reason string)

	// Findings checks the store and returns the findings for the page Health. It is called
	// when a browser opens the page, at most every 30 s, and every five minutes while a browser
	// shows any page, for the number of problems in the navigation. Its context ends after 10 s
	// at the latest.
	Findings func(context.Context) []Finding

	// NamePrefix limits the dashboard to names with this prefix.
	NamePrefix string

	// Counters matters for a store that cannot distinguish a latch from another number. If
	// Counters is true, the dashboard shows all such numbers as locks of kind counter.
	Counters bool

	// Link is one more entry of the navigation. It links to a page of the program that serves
	// the dashboard. If its Title is empty, there is no such entry.
	Link Link

	// Logger gets a line at level WARN for each forced unlock, and for each refused attempt to
	// force a lock. Default: no log.
	Logger *slog.Logger
}

// Link is an entry of the navigation. Address is relative to Options.BasePath.
type Link struct {
	Title, Address string
}

// Dashboard is an http.Handler that serves the pages. The function Handler returns a Dashboard.
type Dashboard struct {
	options  Options
	console  *admin.Console
	base     string // begins and ends with a slash
	pages    *template.Template
	updates  *template.Template // the same templates without the texts of times, for updates of pages
	static   webpage.Files
	protect  *http.CrossOriginProtection
	eventLog *eventLog
	table    table
	store    store
	views    views
	budget   budget
	findings findings

	mu       sync.Mutex
	viewers  int
	watching bool
	left     time.Time // when the last viewer left
	closed   bool
	done     chan struct{}  // closed by Close
	running  sync.WaitGroup // the watcher

	alone sync.Mutex // held by the watcher while it runs: a new watcher waits until the previous one has ended
}

// Handler returns the dashboard for the store of the console. The dashboard begins to poll
// with the first request, and stops some seconds after the last browser has left. If the
// store cannot list its locks, the pages say so. opts may be nil.
//
// Handler panics if console is nil.
func Handler(console *admin.Console, opts *Options) *Dashboard {
	if console == nil {
		panic("dash: Handler called with a nil Console")
	}
	d := &Dashboard{console: console, base: "/", eventLog: newEventLog(), done: make(chan struct{})}
	if opts != nil {
		d.options = *opts
	}
	if trimmed := strings.Trim(d.options.BasePath, "/"); trimmed != "" {
		d.base = "/" + trimmed + "/"
	}
	if d.options.Authorize == nil {
		d.options.Authorize = func(*http.Request) Role { return Viewer }
	}
	if d.options.User == nil {
		d.options.User = func(*http.Request) string { return "" }
	}
	if d.options.Logger == nil {
		d.options.Logger = slog.New(slog.DiscardHandler)
	}
	first, open := context.WithCancel(context.Background())
	d.table.first, d.table.open, d.table.plan = first.Done(), open, newPlan()
	d.table.Observer = observe.New(console, &observe.Options{Names: mostNames, Reasons: d.reasons})
	d.views.byQuery, d.views.number = map[query]*view{}, time.Now().UnixMilli()
	d.static = webpage.Load(staticFiles, "static")
	d.pages, d.updates = loadTemplates(d.static, false), loadTemplates(d.static, true)
	d.findings.busy = make(chan struct{}, 1)
	d.protect = http.NewCrossOriginProtection()
	d.protect.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.refuse(w, r, http.StatusForbidden, "This request came from another site.", "")
	}))
	return d
}
