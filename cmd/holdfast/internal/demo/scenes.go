package demo

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
)

//go:embed page
var pageFiles embed.FS

// sceneData is what the page of scenes shows. The locks themselves are on the dashboard.
type sceneData struct {
	site          *site
	Self          string
	Instances     [2][]instanceProcess
	CanPause      bool
	Servers       servers
	NoMajority    bool // too many servers are cut off for any grant
	Buyers, Items int
}

// Result returns the last result of an action that the page has started, "" if there is none.
func (d sceneData) Result(action string) string {
	value, _ := d.site.results.Load(action)
	text, _ := value.(string)
	return text
}

func (s *site) sceneData() sceneData {
	d := sceneData{site: s, Self: s.self, CanPause: canPause, Servers: s.servers, Buyers: defaultBuyers, Items: defaultItems}
	for n, i := range s.instances {
		d.Instances[n] = i.now()
	}
	cut := 0
	for _, server := range s.servers {
		if server.Cut.Load() {
			cut++
		}
	}
	d.NoMajority = 2*cut > len(s.servers)
	return d
}

// scenes returns the handler of the page of scenes.
func (s *site) scenes() http.HandlerFunc {
	page := template.Must(template.New("demo.html").Funcs(template.FuncMap{"next": func(n int) int { return n + 1 }}).ParseFS(pageFiles, "page/demo.html"))
	return func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		if err := page.Execute(&b, s.sceneData()); err != nil {
			panic(err) // a template that does not fit its data
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(b.Bytes()) // the browser may have disconnected
	}
}
