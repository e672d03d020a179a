package matrix

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
)

var update = flag.Bool("update", false, "write the table into the page")

const (
	page        = "../../../docs/guarantees.md"
	begin       = "<!-- fault matrix: begin -->\n"
	end         = "<!-- fault matrix: end -->"
	beginStores = "<!-- fault matrix of stores: begin -->\n"
	endStores   = "<!-- fault matrix of stores: end -->"
)

// TestTable compares the page with the cells.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := between(t, string(text), begin, end, table())
	want = between(t, want, beginStores, endStores, storeTable())
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date; run: go test ./internal/e2e/matrix -run TestTable -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// between returns text with what stands between two markers replaced.
func between(t *testing.T, text, begin, end, by string) string {
	t.Helper()
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s does not have the markers %q and %q of a table", page, begin, end)
	}
	return before + begin + by + end + after
}

// legend explains the letters of the matrix of Redis.
const legend = `
| letter | outcome |
|---|---|
| A | no effect: locks are taken, kept and released |
| E | an acquire fails, and leaves nothing in the store |
| L | the holder is notified of its loss before another client can have the lock. If U stands beside L, a table below has the time of the notification |
| W | waiters wait longer, and get the lock |
| **U** | two clients may hold the lock. The newer one has the larger token, and package ` + "`fence`" + ` refuses the older one. A quorum and the plain semaphore have no tokens |
| – | the fault does not apply, or has the same outcome as with one server |
| * | a proxy answers in place of the server, with the server's texts |
| (in brackets) | checked on the memory store only |

`

// table returns what stands between the markers of the matrix of Redis.
func table() string {
	var b strings.Builder
	b.WriteString(legend)
	b.WriteString("| | fault | one server | Sentinel | Cluster | Sentinel, strict | quorum of 5 |\n|---|---|---|---|---|---|---|\n")
	for _, f := range faults() {
		fmt.Fprintf(&b, "| %s | %s |", f.id, f.what)
		for _, on := range deployments() {
			fmt.Fprintf(&b, " %s |", shown(f.id, on, mutex))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nA call takes at most %v, the first one after a failover at most %v. The test measures the pauses in which it has no processor, "+
		"and subtracts the longest one from each time. If a cell fails in a run with a pause of %v or more, it runs again, at most %d times in all. "+
		"At most %d cells of a run may do so. Tokens that do not rise, keys without a TTL, wrong answers of a fence and wrong hold counts "+
		"fail at once, because no pause explains them.\n", call, callAfterFailOver, standstill, attempts, repeats)
	fmt.Fprintf(&b, "\nA *quiet* release wakes no waiter, because a caller of the same process takes the lock next ([bursts](internals.md#bursts)). "+
		"In F52 to F54 no caller does. A waiter of another process has the lock at most %v and a call after the release, although the TTL is %v. "+
		"In F55 the callers give up during a quiet release, and a waiter has the lock at most %v after it. "+
		"A quorum has no quiet releases; there the waiter of F55 has the lock at most %v after a release.\n",
		asleep, crowdTTL, single.woken(), quorum5.woken())
	b.WriteString(onOneAdapter())
	b.WriteString("\n*Strict* means that `redishold.Options.Replicas` is `AllReplicas`, and that the servers have `min-replicas-to-write 1`. " +
		"A renewal that finds no replica then ends its lock at once. That can happen during a failover, when the replicas have left the old master " +
		"before the clients.\n\n")
	b.WriteString("The other kinds of lock have these cells. F23 is on Sentinel, the others are on one server.\n\n")
	b.WriteString("| kind | F1, F5 lost reply | F12 lost message | F13 holder stopped | F14 holder killed | F23 write lost | F31 memory full |\n|---|---|---|---|---|---|---|\n")
	for _, k := range otherKinds() {
		fmt.Fprintf(&b, "| %s |", k)
		for _, id := range []string{"F1", "F12", "F13", "F14", "F23", "F31"} {
			on := single
			if id == "F23" {
				on = sentinel
			}
			fmt.Fprintf(&b, " %s |", shown(id, on, k))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n" + twoHolders() + elsewhere() + missing())
	return b.String()
}

func otherKinds() []kind {
	return []kind{reentrant, fair, reader, writer, permit, plain, latch, several}
}

// shown returns the text of one place.
func shown(fault string, on deployment, k kind) string {
	c, ok := find(fault, on, k)
	if !ok {
		return "–"
	}
	return c.text()
}

// text is what the table says of a cell.
func (c cell) text() string {
	text := strings.Join(strings.Split(string(c.want), ""), ", ")
	text = strings.Replace(text, "U", "**U**", 1)
	switch {
	case c.proxy:
		text += " *"
	case c.by != "":
		text = "(" + text + ")"
	}
	return text
}

// onOneAdapter lists what runs with one adapter only: the cells of the first adapter. All others
// run with the second one.
func onOneAdapter() string {
	var both []string
	var b strings.Builder
	for _, on := range deployments() {
		if on.lanes() > 1 {
			both = append(both, string(on))
			continue
		}
		var first []string
		for _, f := range faults() {
			if c, ok := find(f.id, on, mutex); ok && c.check != nil && adapters(c)[0] == dial.Adapters()[0] {
				first = append(first, f.id)
			}
		}
		fmt.Fprintf(&b, "\n- %s: %s.", on, strings.Join(first, ", "))
	}
	return fmt.Sprintf("\nCells of %s run with rueidis and with go-redis (*single* is one server). "+
		"Of the other cells, these run with rueidis, the rest with go-redis:\n%s\n", strings.Join(both, " and "), b.String())
}

func find(fault string, on deployment, k kind) (cell, bool) {
	all := cells()
	i := slices.IndexFunc(all, func(c cell) bool { return c.fault == fault && c.on == on && c.kind == k })
	if i < 0 {
		return cell{}, false
	}
	return all[i], true
}

// twoHolders lists the cells with U by when the older holder is notified of the loss.
func twoHolders() string {
	when := map[string][]cell{}
	for _, c := range cells() {
		if strings.Contains(string(c.want), "U") {
			when[c.notified] = append(when[c.notified], c)
		}
	}
	var b strings.Builder
	b.WriteString("Where two clients may hold a lock, the older one is notified:\n\n| at the latest | cells |\n|---|---|\n")
	var order []string
	for notified := range when {
		order = append(order, notified)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(len(when[b])-len(when[a]), cmp.Compare(a, b)) })
	for _, notified := range order {
		fmt.Fprintf(&b, "| %s | %s |\n", notified, places(when[notified]))
	}
	return b.String()
}

// places lists cells: each fault once with its deployments, or with the other kinds of lock.
func places(cells []cell) string {
	var all []string
	last := ""
	for _, c := range cells {
		row, column := c.fault, string(c.on)
		if c.kind != mutex {
			row, column = c.fault+" "+string(c.on)+" with", string(c.kind)
		}
		if row == last {
			all[len(all)-1] += ", " + column
			continue
		}
		last = row
		all = append(all, row+" "+column)
	}
	return strings.Join(all, "; ")
}

// elsewhere lists the cells that other tests check.
func elsewhere() string {
	by := map[string]bool{}
	var lines []string
	for _, c := range cells() {
		if line := fmt.Sprintf("%s by `%s`", c.fault, c.by); c.by != "" && !by[line] {
			by[line] = true
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "\nOther tests, on the memory store: " + strings.Join(lines, ", ") + ". All other cells belong to `TestMatrix`.\n"
}

// missing lists the places that should have a cell.
func missing() string {
	var b strings.Builder
	for _, f := range faults() {
		for _, on := range deployments() {
			if none(f.id, on) == unchecked {
				fmt.Fprintf(&b, "\nNot tested: %s on %s.\n", f.id, on)
			}
		}
	}
	return b.String()
}

// none says why a place of the mutex has no cell; "" if it must have one.
func none(fault string, on deployment) string {
	alone := on == single || on == quorum5
	switch fault {
	case "F18":
		if on != single {
			return "another takes over: F22"
		}
	case "F21", "F22", "F23", "F25", "F27", "F30":
		if alone {
			return "has no replicas"
		}
	case "F24":
		switch {
		case alone:
			return "has no replicas"
		case on == cluster:
			return "a master has one replica: the slot is down"
		}
	case "F28", "F29":
		if on != cluster {
			return "no cluster"
		}
	case "F35b", "F35c":
		if on != single {
			return "as one server"
		}
	case "F36a", "F36b", "F37":
		if on != quorum5 {
			return "no quorum"
		}
	case "F52", "F53", "F54":
		if on == quorum5 {
			return "every release wakes the waiters"
		}
	}
	return ""
}

// unchecked marks places that apply, and that nothing checks.
const unchecked = "unchecked"

type place struct {
	fault string
	on    deployment
	kind  kind
}

// TestCells checks that each place has one cell, or a reason to have none, that
// each cell has a check, and that those who check elsewhere exist.
func TestCells(t *testing.T) {
	count := map[place]int{}
	known := map[string]bool{}
	for _, f := range faults() {
		known[f.id] = true
	}
	tests := testsOfRepository(t)
	for _, f := range storeFaults() {
		known[f.id] = true
	}
	for _, c := range slices.Concat(cells(), storeCells()) {
		at := place{c.fault, c.on, c.kind}
		count[at]++
		if count[at] > 1 {
			t.Errorf("%s %s %s: more than one cell", c.fault, c.on, c.kind)
		}
		switch {
		case !known[c.fault]:
			t.Errorf("%s is no fault", c.fault)
		case (c.check == nil) == (c.by == ""):
			t.Errorf("%s %s %s: needs a check, or another test", c.fault, c.on, c.kind)
		case c.by != "" && !tests[c.by]:
			t.Errorf("%s %s %s: no test is called %s", c.fault, c.on, c.kind, c.by)
		case strings.Contains(string(c.want), "U") != (c.notified != ""):
			t.Errorf("%s %s %s: two holders, and but no time at which the older one is notified, or the other way round", c.fault, c.on, c.kind)
		case strings.Trim(string(c.want), letters) != "" || c.want == "":
			t.Errorf("%s %s %s: outcome %q", c.fault, c.on, c.kind, c.want)
		}
	}
	for _, f := range faults() {
		for _, on := range deployments() {
			wantCell(t, f.id, on, count, none)
		}
	}
	for _, f := range storeFaults() {
		for _, on := range stores() {
			wantCell(t, f.id, on, count, noStoreCell)
		}
	}
}

// wantCell fails t unless a place of the mutex has a cell, or a reason to have none.
func wantCell(t *testing.T, fault string, on deployment, count map[place]int, none func(string, deployment) string) {
	t.Helper()
	if has, why := count[place{fault, on, mutex}] == 1, none(fault, on); has != (why == "") {
		t.Errorf("%s %s: has a cell: %v, and the reason to have none is %q", fault, on, has, why)
	}
}

// testsOfRepository returns the names of all test functions, alone and with their folder:
// "Test" and "folder.Test".
func testsOfRepository(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	root := os.DirFS("../../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(filepath.Base(path), "_test.go") {
			return err
		}
		source, err := fs.ReadFile(root, path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			names[string(m[1])] = true
			names[filepath.Base(filepath.Dir(path))+"."+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
