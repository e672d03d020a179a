package webdemotest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/browser"
)

// otherMachine asks for the demo at an address off loopback, where browsers send fewer headers
// to it. The forms of the page work. A page of another site starts nothing, neither by an image
// nor by a form.
func otherMachine(t *testing.T, binary string) {
	d := serve(t, binary, "--listen", "0.0.0.0:0", "--insecure-no-auth")
	const lan = "192.0.2.9"
	url := "http://" + lan + d.url[strings.LastIndex(d.url, ":"):]
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<link rel="icon" href="data:,"><img id="image" src="%s/oversell?buyers=7&back=1">
<form id="form" method="post" action="%[1]s/oversell"><input name="buyers" value="7"><input name="back" value="1"></form>`, url)
	}))
	defer other.Close()
	for _, noJS := range []bool{false, true} {
		b := browser.Browser{Lan: lan}
		t.Cleanup(b.Close)
		s := screens()["desktop"]
		s.NoJS = noJS
		p := b.Open(t, s, "Cross-Origin-Opener-Policy", "Failed to load resource")
		p.Visit(other.URL)
		p.Until(5*time.Second, "the answer to the image", `document.getElementById("image").complete`)
		browser.Eval[bool](p, `(document.getElementById("form").submit(), true)`)
		p.Until(5*time.Second, "the answer to the form", `document.body.innerText.includes("another site")`)
		p = b.Open(t, s, "Cross-Origin-Opener-Policy") // a page of its own, because that of the other site may still load
		p.Visit(url + "/demo")
		if text := p.Text("main"); strings.Contains(text, "7 buyers") || strings.Contains(text, "Under way") {
			t.Errorf("another site has started a sale: %s", text)
		}
		press(p, "sell")
		p.Until(10*time.Second, "a sale of the page itself", says("result-sale1", "exact"))
	}
}
