package output

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What is escaped is the same for a program.
func FuzzPrintableJSON(f *testing.F) {
	f.Add("a\x1b[31m\x7f\u0085\u202egnp\u2066\ufeff\u2028\U000e0041z\u00e4\U0001f512")
	f.Fuzz(func(t *testing.T, text string) {
		var plain, escaped bytes.Buffer
		if json.NewEncoder(&plain).Encode(text) != nil || JSONTo(&escaped).Encode(text) != nil {
			t.Fatal("not encoded")
		}
		var a, b string
		if json.Unmarshal(plain.Bytes(), &a) != nil || json.Unmarshal(escaped.Bytes(), &b) != nil || a != b {
			t.Errorf("%q: got %q, want %q", text, b, a)
		}
	})
}
