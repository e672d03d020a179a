package repo

import (
	"regexp"
	"strings"
	"testing"
)

// containerIsSmallAndWithoutRights checks the rules of the image in its source, because few
// machines that run the tests can build one.
func containerIsSmallAndWithoutRights(t *testing.T, r *repository) {
	text := r.text(t, "Containerfile")
	_, image, _ := strings.Cut(text, "\nFROM scratch\n")
	for what, want := range map[string]string{
		"a user by number that is not root": `(?m)^USER [1-9]\d*:[1-9]\d*$`,
		"certificates of authorities":       `ca-certificates\.crt /etc/ssl/certs/`,
		"the program as its entry":          `(?m)^ENTRYPOINT \["/holdfast"\]$`,
	} {
		if !regexp.MustCompile(want).MatchString(image) {
			t.Errorf("Containerfile: the last image, from scratch, has not %s", what)
		}
	}
	if !strings.Contains(text, "CGO_ENABLED=0") || strings.Contains(image, "\nRUN ") {
		t.Error("Containerfile: the program is not static, or the image runs something")
	}
}
