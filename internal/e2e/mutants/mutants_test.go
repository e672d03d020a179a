package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each mutant of the list applies: a change of the library that touches its text changes
// the list, too. There are enough of them, and most need no server.
func TestListApplies(t *testing.T) {
	text, err := os.ReadFile("list.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	local := 0
	for _, m := range all {
		if _, _, err := m.find(filepath.Join("..", "..", "..")); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if m.where != "e2e" && m.alive == "" {
			local++
		}
	}
	if len(all) < 80 || local < 60 {
		t.Errorf("%d mutants, %d of them die without a server; want 80 and 60", len(all), local)
	}
}

// The module that the tool is tested with adds two numbers.
const sample = `-- go.mod --
module sample

go 1.25
-- sum.go --
package sample

import _ "embed"

//go:embed two.txt
var two string

func Sum(a, b int) int { return a + b }

func Loop(n int) {
	for n < 9 {
		n++
	}
}
-- two.txt --
2
-- sum_test.go --
package sample

import "testing"

func TestSum(t *testing.T) {
	if Sum(1, 2) != 3 {
		t.Error("wrong")
	}
}

func TestTwo(t *testing.T) {
	if two != "2\n" {
		t.Error("wrong")
	}
}

func TestFails(t *testing.T) { t.Error("wrong") }
-- list.txt --
# Comments are left out.

mutant dies .
test . TestSum
-return a + b
+return a - b

mutant embedded two.txt
test . TestTwo
-2
+3

mutant lives sum.go
test . TestTwo
-a + b
+a - b

mutant excused sum.go
test . TestTwo
alive nobody adds
-a + b
+b + a

mutant excused-and-dead sum.go
test . TestSum
alive nobody adds
-a + b
+a - b

mutant does-not-apply .
test . TestSum
-a * b
+a - b

mutant does-not-compile sum.go
test . TestSum
-a + b
+a + c

mutant broken-test sum.go
test . TestFails
-a + b
+a - b
`

func TestMutants(t *testing.T) {
	dir := t.TempDir()
	parts := strings.Split("\n"+sample, "\n-- ")
	for _, part := range parts[1:] {
		name, text, _ := strings.Cut(part, " --\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	err := run(&out, dir, filepath.Join(dir, "list.txt"), "", "", 2)
	want := map[string]string{ // the beginning of what comes behind the time
		"dies": "dead test . TestSum", "embedded": "dead test . TestTwo",
		"lives": "alive . TestTwo notices nothing", "excused": "alive nobody adds",
		"excused-and-dead": "dead TestSum: its reason", "does-not-apply": "error does not apply", "does-not-compile": "error does not compile",
		"broken-test": "error . TestFails fails without the mutant",
	}
	if err == nil || !strings.Contains(err.Error(), "5 of 8") {
		t.Errorf("got %v, want 5 of 8 not as the list says", err)
	}
	for line := range strings.Lines(out.String()) {
		words := strings.Fields(line)
		if len(words) < 5 {
			continue // of what the compiler said
		}
		got := words[1] + " " + strings.Join(words[4:], " ")
		if begin, ok := want[words[0]]; ok && strings.HasPrefix(got, begin) {
			delete(want, words[0])
		}
	}
	if len(want) > 0 {
		t.Errorf("missing %v in\n%s", want, out.String())
	}
}

func TestChoose(t *testing.T) {
	all := make([]mutant, 25)
	for i := range all {
		all[i].name = string(rune('a' + i))
	}
	for part, want := range map[string]string{"3/10": "cmw", "13/10": "cmw", "10/10": "jt", "": "abcdefghijklmnopqrstuvwxy"} {
		var got strings.Builder
		chosen, err := choose(all, "", part)
		for _, m := range chosen {
			got.WriteString(m.name)
		}
		if err != nil || got.String() != want {
			t.Errorf("part %q: got %q and error %v, want %q", part, got.String(), err, want)
		}
	}
	for _, part := range []string{"3", "3/0", "x/y"} {
		if _, err := choose(all, "", part); err == nil {
			t.Errorf("part %q: got no error", part)
		}
	}
	if _, err := choose(all, "none", ""); err == nil {
		t.Error("a name that no mutant has: got no error")
	}
}

// A test that does not end, and one that panics, notice a mutant; one that does not run is
// an error.
func TestVerdict(t *testing.T) {
	ended := exec.Command("go", "no-such-command").Run()
	for _, c := range []struct {
		out   string
		ended error
		test  string
		wrong bool
	}{
		{"--- PASS: TestA (0.00s)\nPASS\n", nil, "", false},
		{"    --- FAIL: TestA/b (0.00s)\n--- FAIL: TestA (0.00s)\n", ended, "TestA/b", false},
		{"panic: test timed out after 2m0s\n", ended, "hang", false},
		{"panic: nobody recovers\n", ended, "panic", false},
		{"testing: warning: no tests to run\nPASS\n", nil, "", true},
		{"--- SKIP: TestA (0.00s)\nPASS\n", nil, "", true},
		{"", errors.New("no such file"), "", true},
	} {
		if test, err := verdict(c.out, c.ended); test != c.test || (err != nil) != c.wrong {
			t.Errorf("%q, %v: got %q and error %v, want %q", c.out, c.ended, test, err, c.test)
		}
	}
}
