package dash

import (
	"embed"
	"html/template"

	"github.com/holdfast-go/holdfast/internal/webpage"
)

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// loadTemplates parses the templates that are part of the program.
func loadTemplates(static webpage.Files) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"static": static.Address}).ParseFS(templateFiles, "templates/*.html"))
}
