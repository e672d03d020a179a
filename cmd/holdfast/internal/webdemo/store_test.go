package webdemo

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
)

// What the page shows of a store, and suggests to type, has no password in it. A store
// that was given is the one that is used, however little can be shown of it.
func TestStoresAreShownWithoutTheirPasswords(t *testing.T) {
	for address, want := range map[string]string{"redis://app:s3cret@h:1": "redis://app@h:1", "app:s3cret@redis://h": ""} {
		p, err := find([]access.Access{{URL: address}})
		if err != nil {
			t.Fatal(err)
		}
		p.close()
		if p.lock.access.URL != address || p.lock.Name != want || p.flags() != " --url "+want {
			t.Errorf("%s: got %q, shown as %q, to be typed as %q", address, p.lock.access.URL, p.lock.Name, p.flags())
		}
	}
}
