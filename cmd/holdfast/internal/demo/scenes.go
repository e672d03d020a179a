package demo

import (
	"bytes"
	"embed"
	"html/template"
	"maps"
	"net/http"
)

//go:embed page
var pageFiles embed.FS

// sceneData is what the page of scenes shows. The locks themselves are on the dashboard.
type sceneData struct {
	Store, Self, Second string
	Instances           [2][]instanceProcess
	CanPause            bool
	Sales               [2]string
	Servers             servers
	NoMajority          bool              // too many servers are cut off for any grant
	Said                map[string]string // by action: how its last run from the page ended
	Buyers, Items       int
}

func (s *site) sceneData() sceneData {
	d := sceneData{
		Store: s.servers[0].Name, Self: s.self, Second: s.second(), CanPause: canPause, Sales: [2]string{"Without a lock", "With a lock"}, Servers: s.servers,
		Buyers: defaultBuyers, Items: defaultItems,
	}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Said = maps.Clone(s.said)
	return d
}

// scenes is the page of scenes.
func (s *site) scenes() http.HandlerFunc {
	page := template.Must(template.New("demo.html").Funcs(template.FuncMap{"next": func(n int) int { return n + 1 }}).ParseFS(pageFiles, "page/demo.html"))
	return func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		if err := page.Execute(&b, s.sceneData()); err != nil {
			panic(err) // a template that does not fit its data
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(b.Bytes()) // a browser that has left needs no answer
	}
}
