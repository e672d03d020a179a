package rows_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/rows"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"job": "job", "Job ": "Job ", "job/1": "job/1", "日本 é": "日本 é",
		`a\b`: `a\5cb`, "a\x00": `a\00`, "\xff\xfe": `\ff\fe`, `\00`: `\5c00`, "\uFFFD": "\uFFFD", "é\xc3": `é\c3`,
	} {
		if got := rows.Escape(name); got != want || rows.Unescape(got) != name {
			t.Errorf("rows.Escape(%q): got %q, and back %q, want %q", name, got, rows.Unescape(got), want)
		}
	}
	if tx := rows.TxName("job"); rows.Escape(tx) == tx {
		t.Errorf("%q is the row of a transaction and that of a lock", tx)
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "job", `\`, `\5c`, "\x00\xff", "é", `\tx job`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := rows.Escape(name)
		if got := rows.Unescape(key); got != name {
			t.Errorf("rows.Unescape(rows.Escape(%q)): got %q", name, got)
		}
		if rows.Text(key) != key || len(key) > 4*len(name) || strings.HasPrefix(key, `\tx`) {
			t.Errorf("rows.Escape(%q): got %q, want text of at most four times its length that is no row of a transaction", name, key)
		}
		rows.Unescape(name) // whatever is sent by somebody else
	})
}
