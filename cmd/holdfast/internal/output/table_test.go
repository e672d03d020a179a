package output

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
)

// On a terminal of 80 columns each lock has one line, but for the one whose name has no
// room: that name is whole, on a line of its own.
func TestColumnsFitTheTerminal(t *testing.T) {
	const long = "orders/2026/eu-west-1/customer-000000000042/nightly-report/of-all-shops"
	rows := func() [][]string {
		return [][]string{
			{"NAME", "KIND", "HOLDER", "COUNT", "HELD", "LEASE", "WAITERS"},
			{"billing", "fair", "invoices@worker-1:91 (nightly, all customers) team=billing", "1", "1m20s", "28s", "2"},
			{long, "semaphore", "backup@db-1:77 and 1 more", "2 of 4", "-", "forever", "~1"},
			{"stock:42", "mutex", "checkout@web-1:310", "1", "9h0m0s", "30s", "0"},
		}
	}
	lines := strings.Split(strings.TrimSuffix(columns(rows(), 80), "\n"), "\n")
	if len(lines) != 5 || lines[2] != long || !strings.HasPrefix(lines[3], "   ") {
		t.Errorf("got %q, want five lines, and the long name on one", lines)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 || strings.HasSuffix(line, " ") {
			t.Errorf("%d characters: %q, want 80 at most, and no space at the end", n, line)
		}
	}
	if text := lines[1]; !strings.Contains(text, "billing") || !strings.Contains(text, "invoices@worker-1:91 (n") || !strings.HasSuffix(text, "1m20s   28s      2") {
		t.Errorf("got %q, want the name, the holder and the numbers", text)
	}
	for _, line := range strings.Split(columns(rows(), 0), "\n")[1:4] { // a pipe gets all of it
		if strings.Contains(line, "…") || strings.HasPrefix(line, " ") {
			t.Errorf("got %q in a pipe, want a whole line", line)
		}
	}
}

// Programs of other tenants choose their names. In a pipe a long name costs its own length
// once, whatever the number of other rows and of its own holders, and all of it is printed.
func TestALongNameCostsItsLengthOnce(t *testing.T) {
	const rows, long = 1000, 100_000
	held := func(name string, holders int) admin.Record {
		r := admin.Record{Name: name, Kind: admin.KindSemaphore, Permits: holders}
		for i := range holders {
			r.Holds = append(r.Holds, admin.Hold{Holder: admin.Holder{Owner: fmt.Sprint("owner", i), Holds: 1, Note: "worker@host:1"}})
			r.Holders++
		}
		return r
	}
	records := []admin.Record{held(strings.Repeat("x", long), 32)}
	for i := range rows {
		records = append(records, held(fmt.Sprint("short", i), 1))
	}
	for _, details := range []bool{false, true} {
		text := Table(records, details, 0)
		if most := long + 1100*120; len(text) > most {
			t.Errorf("details %v: got %d bytes, want %d at most", details, len(text), most)
		}
		if n := strings.Count(text, "x"); n < long || !strings.Contains(text, "\nshort7  ") {
			t.Errorf("details %v: got %d characters of the long name, want all %d, and the other rows aligned", details, n, long)
		}
	}
}
