package importconf

import "testing"

// A key has one reason at each place, and a key that only one value makes harmless says what to do
// about the others.
func TestIgnoredKeys(t *testing.T) {
	type located struct {
		at  place
		key string
	}
	seen := map[located]bool{}
	for _, known := range allIgnored() {
		if known.at == 0 || len(known.keys) == 0 || known.why == "" || (known.harmless == "") != (known.otherwise == "") {
			t.Errorf("a text or a place is missing: %+v", known)
		}
		for _, at := range []place{atTop, inServers, withoutTLS, inSpring} {
			for _, key := range known.keys {
				k := located{known.at & at, key}
				if k.at != 0 && seen[k] {
					t.Errorf("%s is there twice", key)
				}
				seen[k] = true
			}
		}
	}
}
