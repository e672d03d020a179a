package demo

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/plural"
)

//go:embed page
var pageFiles embed.FS

// sceneData is what the page of scenes shows. The table of locks is that of the dashboard.
type sceneData struct {
	*site
	Buyers, Items int // the numbers that the form shows at first
	Work, Lease   string
	Stage         stage
}

// scenes returns the handler of the page of scenes.
func (s *site) scenes() http.HandlerFunc {
	functions := template.FuncMap{"next": func(n int) int { return n + 1 }, "locks": s.dashboard.Table}
	page := template.Must(template.New("demo.html").Funcs(functions).ParseFS(pageFiles, "page/*.html"))
	return func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		s.timeline.look(now)
		lease := s.leaseTime()
		data := sceneData{
			site: s, Buyers: defaultBuyers, Items: defaultItems, Work: defaultWork.String(), Lease: fmt.Sprintf("%g s", lease.Seconds()),
			Stage: stageOf(s.timeline.copied(now), lease, canPause),
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, data) // the browser may have disconnected
	}
}

// leaseTime returns the TTL of the lock that the instances take.
func (s *site) leaseTime() time.Duration { return cmp.Or(s.lease, pageLease) }

// saleView is the result of a sale, as the page shows it.
type saleView struct {
	Locked, Running, Done bool
	Problem               string
	sale
	Look, Verdict    string
	Within, Extra    string // the width of the items that were sold and existed, and of the others
	ItemsAt, ExtraAt string // where the items end, and where the others begin
}

// Sales returns the last sale without a lock and the last one with a lock. Their bars have the
// same scale.
func (s *site) Sales() (views [2]saleView) {
	most := 1
	for n := range views {
		v := &views[n]
		v.Locked = n == 1
		switch result, _ := s.results.Load(actionSale(v.Locked)); r := result.(type) {
		case underWay:
			v.Running = true
		case sale:
			v.sale, v.Done, v.Problem = r, r.Error == "", r.Error
			most = max(most, r.Sold, r.Items)
		case fmt.Stringer:
			v.Problem = r.String()
		}
	}
	for n := range views {
		views[n].judge(most)
	}
	return views
}

// judge sets what a person is to see of a sale. The whole width of its bar is `most` items.
func (v *saleView) judge(most int) {
	share := func(n int) string { return percent(100 * float64(n) / float64(most)) }
	extra := v.oversold()
	v.Within, v.Extra = share(min(v.Sold, v.Items)), share(extra)
	v.ItemsAt, v.ExtraAt = share(v.Items), share(v.Items)
	unsold := min(v.Items, v.Buyers) - v.Sold
	switch {
	case extra > 0:
		v.Look, v.Verdict = "danger", fmt.Sprintf("%d sold too many", extra)
	case unsold > 0:
		v.Look, v.Verdict = "warning", plural.Count(unsold, "item")+" not sold"
	default:
		v.Look, v.Verdict = "good", "exact"
	}
}

// raceView is the last race of Redlock, as the page shows it.
type raceView struct {
	Running, Done bool
	Rows          []raceRow
	Look, Verdict string
}

// raceRow is the result of one worker.
type raceRow struct {
	Place              int // 0 without the lock
	Name, Look, Result string
	Votes              []vote // one for each server
}

// vote is what a server has answered to a worker.
type vote struct{ Look, Sign, Text string }

// Race returns the last race, or the workers before the first race.
func (s *site) Race() (v raceView) {
	result, _ := s.results.Load(actionRace)
	switch r := result.(type) {
	case *race:
		v.Done = true
		for _, w := range r.Workers {
			v.Rows = append(v.Rows, rowOf(w, len(s.Servers)))
		}
		v.Look, v.Verdict = "good", "Never two workers at the same time."
		if r.Overlaps > 0 {
			v.Look, v.Verdict = "danger", "Two workers at the same time: "+plural.Count(r.Overlaps, "time")+"."
		}
		return v
	case underWay:
		v.Running = true
	}
	for n := range racers {
		v.Rows = append(v.Rows, rowOf(raceEntry{Name: fmt.Sprintf("worker %d", n+1)}, len(s.Servers)))
	}
	return v
}

// rowOf returns the row of a worker, with a vote for each of the servers.
func rowOf(w raceEntry, servers int) raceRow {
	row := raceRow{Place: w.Place, Name: w.Name}
	granted := 0
	for n := range servers {
		v := vote{Sign: "–"}
		if n < len(w.Votes) {
			v.Text = w.Votes[n]
		}
		switch v.Text {
		case "granted":
			v.Look, v.Sign = "good", "✓"
			granted++
		case "refused":
			v.Look, v.Sign = "warning", "–"
		case "failed":
			v.Look, v.Sign = "danger", "✕"
		}
		row.Votes = append(row.Votes, v)
	}
	switch {
	case w.Place > 0:
		row.Look, row.Result = "good", fmt.Sprintf("after %s, granted by %d of %d", w.Waited, granted, servers)
		if w.Error != "" {
			row.Look, row.Result = "warning", row.Result+": "+w.Error
		}
	case w.Error != "":
		row.Look, row.Result = "danger", "no lock: "+w.Error
	}
	return row
}
