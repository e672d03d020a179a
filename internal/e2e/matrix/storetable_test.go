package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// storeTable returns what stands between the markers of the matrix of the other stores.
func storeTable() string {
	var b strings.Builder
	b.WriteString("\nThe letters are those of the [fault matrix](#fault-matrix). (In brackets): proved by a test that is named below the table; " +
		"each other place is a cell of `TestMatrixOfStores`, on a real server, in `internal/e2e/matrix`. " +
		"–: does not apply. ?: not tried.\n\n")
	b.WriteString("| | fault | the holder | a waiter | etcd | ZooKeeper | PostgreSQL | MariaDB |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range storeFaults() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", f.id, f.what, f.holder, f.waiter)
		for _, on := range stores() {
			fmt.Fprintf(&b, " %s |", shownOfStore(f.id, on))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nThe TTL is %v, with ZooKeeper %v, and %v in F18. In F14 the lock is free one TTL and one second after the death of its holder, "+
		"with ZooKeeper one tick more. The tokens in F46 are told of [below](#postgresql-mariadb-mysql). In F11 and F12 the waiter has it within %v. "+
		"Times are net of those for which the machine left the test without a processor, as above.\n",
		etcd.ttl(), zookeeper.ttl(), restartTTL, storeBack)
	b.WriteString("\nWhere two may hold a lock, the older holder is told:\n\n| at the latest | cells |\n|---|---|\n")
	for _, line := range grouped(storeCells(), func(c cell) string { return c.told }) {
		fmt.Fprintf(&b, "| %s | %s |\n", line.key, line.places)
	}
	b.WriteString("\nProved by tests of other folders of `internal/e2e`:\n\n| test | cells |\n|---|---|\n")
	for _, line := range grouped(storeCells(), func(c cell) string { return c.by }) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Replace(line.key, ".", "` `", 1), line.places)
	}
	return b.String()
}

// shownOfStore returns the text of one place.
func shownOfStore(fault string, on deployment) string {
	all := storeCells()
	i := slices.IndexFunc(all, func(c cell) bool { return c.fault == fault && c.on == on })
	switch {
	case i >= 0:
		return all[i].text()
	case noStoreCell(fault, on) == notPlayed:
		return "?"
	default:
		return "–"
	}
}

// group is the places of cells that have something in common.
type group struct{ key, places string }

// grouped returns the cells for which key is not "", by that.
func grouped(cells []cell, key func(cell) string) []group {
	var all []group
	for _, c := range cells {
		k, at := key(c), c.fault+" "+string(c.on)
		if k == "" {
			continue
		}
		if i := slices.IndexFunc(all, func(g group) bool { return g.key == k }); i >= 0 {
			all[i].places += "; " + at
			continue
		}
		all = append(all, group{k, at})
	}
	slices.SortFunc(all, func(a, b group) int { return cmp.Compare(a.key, b.key) })
	return all
}
