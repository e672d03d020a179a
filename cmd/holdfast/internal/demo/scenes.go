package demo

import (
	"embed"
	"html/template"
	"net/http"
)

//go:embed page
var pageFiles embed.FS

// sceneData is what the page of scenes shows. The locks themselves are on the dashboard.
type sceneData struct {
	*site
	CanPause      bool
	Buyers, Items int // the usual numbers
}

// scenes returns the handler of the page of scenes.
func (s *site) scenes() http.HandlerFunc {
	data := sceneData{site: s, CanPause: canPause, Buyers: defaultBuyers, Items: defaultItems}
	page := template.Must(template.New("demo.html").Funcs(template.FuncMap{"next": func(n int) int { return n + 1 }}).ParseFS(pageFiles, "page/demo.html"))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, data) // the browser may have disconnected
	}
}

// Result returns the last result of an action that the page has started, "" if there is none.
func (s *site) Result(action string) string {
	value, _ := s.results.Load(action)
	text, _ := value.(string)
	return text
}
