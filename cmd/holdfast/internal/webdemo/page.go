package webdemo

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/webpage"
)

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// front is the look of the page.
type front struct {
	pages  *template.Template
	assets webpage.Files
}

func newFront() front {
	f := front{assets: webpage.Load(staticFiles, "static")}
	f.pages = template.Must(template.New("").Funcs(template.FuncMap{
		"static": f.assets.Address,
		"clock":  func(ms int64) string { return time.UnixMilli(ms).Format("15:04:05.000") },
		"ms":     func(ms int64) string { return short(time.Duration(ms) * time.Millisecond) },
		"until":  func(ms int64) string { return short(max(0, time.Until(time.UnixMilli(ms)))) },
		"since":  func(ms int64) string { return short(time.Since(time.UnixMilli(ms))) },
		"now":    func() int64 { return time.Now().UnixMilli() },
		"sub":    func(a, b int64) int64 { return a - b },
	}).ParseFS(templateFiles, "templates/*.html"))
	return f
}

// ServeHTTP sends an asset.
func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := f.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	a.ServeHTTP(w, r)
}

// view is what the page is made from.
type view struct {
	state
	Store     place
	Second    string
	Self      string
	Lease     string
	Instances []instanceView
	Sales     []saleState
	Most      string // of work

	// For forms.
	Buyers, Items int
}

// instanceView is an instance and what surrounds it.
type instanceView struct {
	instanceState
	CanPause bool
	Status   string // in a word: "holds", "waits", "paused"
}

func (s *site) view(now state) view {
	v := view{
		state: now, Store: s.places.lock, Second: s.second(), Self: s.self, Lease: short(s.lease),
		Sales: now.Sales[:], Most: maxWork.String(), Buyers: defaultBuyers, Items: defaultItems,
	}
	for _, i := range now.Instances {
		v.Instances = append(v.Instances, instanceView{instanceState: i, CanPause: canPause, Status: i.status()})
	}
	v.Lock.Holder = now.holder(s.self)
	return v
}

// status says in a word what an instance is doing.
func (i instanceState) status() string {
	switch {
	case !i.Ready:
		return "starting"
	case i.Paused != 0:
		return "paused"
	case i.Lost:
		return "lost"
	case i.Holds:
		return "holds"
	case i.Waiting > 0:
		return "waits"
	}
	return "idle"
}

// holder returns the holder of the lock, for people: one of ours by its number, as
// the store learns its name a little later.
func (s state) holder(self string) string {
	for _, i := range s.Instances {
		if s.Lock.Holder == "" && i.status() == "holds" || s.Lock.Holder == fmt.Sprintf("instance %d of %s", i.Number, self) {
			return fmt.Sprintf("instance %d", i.Number)
		}
	}
	return s.Lock.Holder
}

// parts renders what changes, by the id of its element.
func (f front) parts(v view) map[string]string {
	parts := map[string]string{
		"lock": f.render("lock", v.Lock),
		"keys": f.render("keys", v.Lock),
		"log":  f.render("log", v.Log),
		"race": f.render("race", v.state),
	}
	for _, i := range v.Instances {
		n := strconv.Itoa(i.Number)
		parts["instance"+n] = f.render("instance", i)
		parts["faults"+n] = f.render("faults", i)
	}
	for _, n := range v.Nodes {
		parts["node"+strconv.Itoa(n.Number)] = f.render("node", n)
	}
	for i, sale := range v.Sales {
		parts["sale"+strconv.Itoa(i)] = f.render("sale", sale)
	}
	return parts
}

func (f front) render(name string, data any) string {
	var b bytes.Buffer
	if err := f.pages.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates and their data are ours
	}
	return b.String()
}

// page sends the page.
func (s *site) page(w http.ResponseWriter, r *http.Request) {
	s.look(r.Context())
	now, _, _ := s.board.read()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(s.front.render("page", s.view(now))))
}
