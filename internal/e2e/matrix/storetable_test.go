package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
)

// storeTable returns what stands between the markers of the matrix of the other stores.
func storeTable() string {
	var b strings.Builder
	b.WriteString("\nThe letters are those of the [fault matrix](#fault-matrix). A cell in brackets has a test that is named below the table. " +
		"Each other cell belongs to `TestMatrixOfStores` in `internal/e2e/matrix`, on a real server. " +
		"A dash (–) means that the fault does not apply, a question mark that it was not tested. *Is served* means: gets the lock.\n\n")
	b.WriteString("| | fault | the holder | a waiter |")
	for _, k := range anystore.All() {
		fmt.Fprintf(&b, " %s |", k.Title)
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", len(stores())) + "\n")
	for _, f := range storeFaults() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", f.id, f.what, f.holder, f.waiter)
		for _, on := range stores() {
			fmt.Fprintf(&b, " %s |", shownOfStore(f.id, on))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nThe TTL is %v, with ZooKeeper %v, and %v in F18. In F14 the lock is free one TTL and one second after the death of its holder, "+
		"with ZooKeeper one tick later. For the tokens in F46 see [below](#postgresql-mariadb-mysql). In F11 and F12 the waiter has the lock at most %v after the fault ends, in F52 to F55 at most %v after the release, in databases %v. "+
		"As above, the test subtracts the longest pause.\n",
		storeTTL, anystore.ZooKeeper().Session(storeTTL), restartTTL, storeBack, woken(anystore.Etcd()), woken(anystore.PostgreSQL()))
	b.WriteString("\nWhere two clients may hold a lock, the older one is notified:\n\n| at the latest | cells |\n|---|---|\n")
	for _, line := range grouped(storeCells(), func(c cell) string { return c.notified }) {
		fmt.Fprintf(&b, "| %s | %s |\n", line.key, places(line.cells))
	}
	b.WriteString("\nTests in other folders of `internal/e2e`:\n\n| test | cells |\n|---|---|\n")
	for _, line := range grouped(storeCells(), func(c cell) string { return c.by }) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Replace(line.key, ".", "` `", 1), places(line.cells))
	}
	return b.String()
}

// woken is that of the deployment of a kind.
func woken(k *anystore.Kind) time.Duration { return deployment(k.Name).woken() }

// shownOfStore returns the text of one place.
func shownOfStore(fault string, on deployment) string {
	all := storeCells()
	i := slices.IndexFunc(all, func(c cell) bool { return c.fault == fault && c.on == on })
	switch {
	case i >= 0:
		return all[i].text()
	case noStoreCell(fault, on) == anystore.Untested:
		return "?"
	default:
		return "–"
	}
}

// common is the cells that have a key in common.
type common struct {
	key   string
	cells []cell
}

// grouped returns the cells for which key is not "", by that.
func grouped(cells []cell, key func(cell) string) []common {
	var all []common
	for _, c := range cells {
		k := key(c)
		if k == "" {
			continue
		}
		if i := slices.IndexFunc(all, func(g common) bool { return g.key == k }); i >= 0 {
			all[i].cells = append(all[i].cells, c)
			continue
		}
		all = append(all, common{k, []cell{c}})
	}
	slices.SortFunc(all, func(a, b common) int { return cmp.Compare(a.key, b.key) })
	return all
}
