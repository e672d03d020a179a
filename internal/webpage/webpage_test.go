package webpage_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/webpage"
)

// TestFiles follows the address that a page has for a file.
func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := webpage.Load(fstest.MapFS{"static/look.css": {Data: []byte("body{}")}}, "static")
		address := files.Address("look.css")
		if !strings.HasPrefix(address, "static/look.css?v=") {
			t.Fatalf("address %q", address)
		}

		first := get(files["look.css"], "/"+address, "")
		if first.Body.String() != "body{}" || !strings.HasPrefix(first.Header().Get("Content-Type"), "text/css") {
			t.Errorf("answer %q of type %q", first.Body, first.Header().Get("Content-Type"))
		}
		if cache := first.Header().Get("Cache-Control"); !strings.Contains(cache, "immutable") {
			t.Errorf("with the digest the browser is told %q", cache)
		}
		if cache := get(files["look.css"], "/static/look.css?v=old", "").Header().Get("Cache-Control"); strings.Contains(cache, "immutable") {
			t.Errorf("with another digest the browser is told %q", cache)
		}
		if again := get(files["look.css"], "/"+address, first.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("a file that the browser has is sent again: %d %q", again.Code, again.Body)
		}
	})
}

func get(file webpage.File, address, etag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, address, nil)
	r.Header.Set("If-None-Match", etag)
	w := httptest.NewRecorder()
	file.ServeHTTP(w, r)
	return w
}
