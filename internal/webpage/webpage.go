// Package webpage serves the embedded files of a page, and protects the page from other
// sites. The dashboard and the demo share it.
package webpage

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

// contentPolicy allows a page to load only files of its own server. It forbids code and styles
// inside the page, and forbids all sites to show the page in a frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Protect sets the headers that make browsers protect a page from other sites, and that forbid
// browsers to store the page.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, a browser may send "Origin: null" with the forms of the page itself
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Files are the files that a page refers to, by their names.
type Files map[string]File

// File is a file that a page refers to.
type File struct {
	kind   string
	digest string
	body   []byte
}

// Load reads all files of a folder of the file system `from`. It panics if it cannot read a
// file: the files are embedded in the program, so that is a mistake in the program.
func Load(from fs.FS, folder string) Files {
	entries, err := fs.ReadDir(from, folder)
	if err != nil {
		panic(err)
	}
	files := Files{}
	for _, e := range entries {
		body, err := fs.ReadFile(from, folder+"/"+e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(body)
		files[e.Name()] = File{kind: mime.TypeByExtension(path.Ext(e.Name())), digest: hex.EncodeToString(sum[:8]), body: body}
	}
	return files
}

// Address returns the address of a file, for use in a page. The address begins with static/,
// and has the digest of the file, so that a browser may keep the file.
func (f Files) Address(name string) string {
	return "static/" + name + "?v=" + f[name].digest
}

// ServeHTTP sends the file.
func (f File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "private, no-cache")
	if r.URL.Query().Get("v") == f.digest {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	h.Set("ETag", `"`+f.digest+`"`)
	if r.Header.Get("If-None-Match") == `"`+f.digest+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.body) // an error means that the browser has disconnected
}
