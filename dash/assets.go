package dash

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"mime"
	"net/http"
	"path"
)

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// asset is a file that pages refer to.
type asset struct {
	kind   string
	digest string
	body   []byte
}

// loadAssets reads the files that are part of the program.
func loadAssets() map[string]asset {
	files := map[string]asset{}
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, e := range entries {
		body, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		files[e.Name()] = asset{kind: mime.TypeByExtension(path.Ext(e.Name())), digest: hex.EncodeToString(sum[:8]), body: body}
	}
	return files
}

// ServeHTTP sends the file. Pages refer to it by its digest, so it may be kept.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "private, no-cache")
	if r.URL.Query().Get("v") == a.digest {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	h.Set("ETag", `"`+a.digest+`"`)
	if r.Header.Get("If-None-Match") == `"`+a.digest+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(a.body)
}

// loadTemplates parses the templates that are part of the program.
func loadTemplates(static map[string]asset) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"static": func(name string) string { return "static/" + name + "?v=" + static[name].digest },
	}).ParseFS(templateFiles, "templates/*.html"))
}
