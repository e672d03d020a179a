package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	os.Setenv("GOWORK", "off")
	os.Setenv("GOFLAGS", "-mod=mod")
	goleak.VerifyTestMain(m)
}

// program is a test package, whose tests fail at the first run.
const program = `package x

import (
	"os"
	"testing"
)

func TestTimed(t *testing.T) {
	_, err := os.Stat("ran")
	os.WriteFile("ran", nil, 0o600)
	if err == nil {
		return
	}
	%s
}

func TestOther(t *testing.T) {
	if _, err := os.Stat("ran-too"); err != nil {
		os.WriteFile("ran-too", nil, 0o600)
		%s
	}
}

func TestVerbose(t *testing.T) { t.Log("of a test that passes") }
`

func TestRun(t *testing.T) {
	const late, path = `t.Error("took 3s, want 2s")`, module + "/internal/e2e/x"
	for name, test := range map[string]struct {
		timed, other string // what the tests do at the first run
		record       bool
		status       int
		says, notes  string
	}{
		"late":               {late, "", true, 0, "again: " + path + " runs once more, alone: TestTimed\n", "passed at the second run: "},
		"late in a subtest":  {`t.Run("a cell", func(t *testing.T) { ` + late + ` })`, "", true, 0, "alone: TestTimed/a_cell\n", "passed at the second run: "},
		"nobody asked":       {late, "", false, 1, "FAIL\t" + path, ""},
		"another failed":     {"", late, true, 0, "alone: TestOther\n", "passed at the second run: "},
		"race":               {late + "\nc, n := make(chan bool), 0\ngo func() { n++; close(c) }()\nn++\n<-c", "", true, 1, `the output has "WARNING: DATA RACE"`, "failed: " + path + ": TestTimed\n    WARNING: DATA RACE\n"},
		"panic":              {late + "\n" + `panic("at the disco")`, "", true, 1, `the output has "panic:"`, "failed: "},
		"does not compile":   {"return 7", "", true, 1, "no second run", "failed: " + path + ": \n"},
		"exits":              {"os.Exit(1)", "", true, 1, "failed without a failed test", "failed: " + path + ": \n"},
		"at the second, too": {`os.Remove("ran"); ` + late, "", true, 1, "runs once more", "failed at both runs: " + path + ": TestTimed\n    x_test.go:14: took 3s, want 2s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "go.mod", "module "+module+"\n\ngo 1.25\n")
			write(t, dir, "internal/e2e/x/x_test.go", fmt.Sprintf(program, test.timed, test.other))
			record := ""
			if test.record {
				record = filepath.Join(dir, "record")
			}
			args := []string{"test", "-C", dir, "-count=1", "-vet=off", "-ldflags=-w"}
			if name == "race" {
				args = append(args, "-race")
			}
			var out bytes.Buffer
			status := run(append(args, "./internal/e2e/x"), record, &out)
			if status != test.status || !strings.Contains(out.String(), test.says) {
				t.Errorf("got status %d, want %d and %q in\n%s", status, test.status, test.says, &out)
			}
			noted, _ := os.ReadFile(filepath.Join(dir, "record"))
			if !strings.HasPrefix(string(noted), test.notes) || (len(noted) > 0) != test.record {
				t.Errorf("recorded %q, want that it begins with %q", noted, test.notes)
			}
			if test.status == 0 && !strings.Contains(out.String(), "took 3s, want 2s") {
				t.Errorf("the output of the first run is not in\n%s", &out)
			}
		})
	}
}

// All packages that failed must be allowed to; those that passed do not run again.
func TestFailures(t *testing.T) {
	fails := func(pkg, test string, says ...string) string {
		return fmt.Sprintf("--- FAIL: %s (0.10s)\n    a_test.go:7: late%s\nFAIL\nFAIL\t%s/%s\t0.2s\n", test, strings.Join(says, "\n"), module, pkg)
	}
	for output, want := range map[string]string{
		fails("internal/e2e/a", "TestA", "found unexpected goroutines:"):                             "",
		fails("internal/e2e/a", "TestA", "process 1 op 7 (write, token 3) and"):                      "",
		fails("internal/e2e/a", "TestA", "process 1 op 7 (write, token 3) believed in"):              "internal/e2e/a",
		fails("internal/e2e/a", "TestA", "outcome: got LU, want L; two holders at the same time: 1"): "",
		fails("internal/e2e/a", "TestA", "outcome: got L, want A; two holders at the same time: 0"):  "internal/e2e/a",
		fails("internal/e2e/a", "TestA", "breach: keys without a TTL"):                               "",
		fails("internal/e2e/a", "TestA", "violation: overlap"):                                       "",
		fails("internal/e2e/a", "TestA", "doubt: 120 of 1149 answers unknown", " 0 violations"):      "internal/e2e/a",
		fails("internal/e2e/a", "TestA", "token 7 after 9"):                                          "",
		fails("internal/e2e/a", "TestA", "2 inside at once"):                                         "",
		fails("internal/e2e/a", "TestA", "got a grant, want that it waits for the standby"):          "",
		fails("internal/e2e/a", "TestA", "got 3 holders at once"):                                    "",
		fails("internal/e2e/a", "TestA", "fatal error: concurrent map writes"):                       "",
		"ok  \tp\t1s\n" + fails("redishold/a", "TestA") + "FAIL\n":                                   "redishold/a",
		fails("internal/e2e/a", "TestA") + fails("cmd/holdfast/internal/cli", "TestB/single/F1"):     "internal/e2e/a cmd/holdfast/internal/cli",
		fails("internal/e2e/a", "TestA") + fails("internal/queue", "TestB"):                          "",
		fails("memhold", "TestSimulation"):                                                           "",
		fails("internal/e2e/a", "TestA") + "FAIL\tc [build failed]\n":                                "",
		"--- FAIL: TestA (1s)\nok  \tp\t1s\n":                                                        "",
		"go: no such tool\n":                                                                         "",
	} {
		failed, err := failures(output)
		var got []string
		for _, f := range failed {
			if err == nil {
				got = append(got, strings.TrimPrefix(f.pkg, module+"/"))
			}
		}
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("got %q, %v, want %q of\n%s", got, err, want, output)
		}
	}
}

// With events, a reader gets those of the run that passed, and of each package once.
func TestRunJSON(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module "+module+"\n\ngo 1.25\n")
	write(t, dir, "internal/e2e/x/x_test.go", fmt.Sprintf(program, `t.Error("took 3s, want 2s")`, ""))
	write(t, dir, "internal/e2e/y/y_test.go", "package y\n\nimport \"testing\"\n\nfunc TestOfAnother(t *testing.T) {}\n")
	write(t, dir, "z/z_test.go", strings.Replace(fmt.Sprintf(program, `t.Error("took 3s, want 2s")`, ""), "package x", "package z", 1))
	record := filepath.Join(dir, "record")
	for pkg, want := range map[string]struct{ status, passed, fails int }{
		"z":              {1, 0, 1},
		"internal/e2e/x": {0, 1, 0},
	} {
		args := []string{"test", "-C", dir, "-count=1", "-vet=off", "-json", "./" + pkg, "./internal/e2e/y"}
		var out bytes.Buffer
		status := run(args, record, &out)
		count := func(action, test string) (n int) {
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, `"Action":"`+action+`"`) && strings.Contains(line, `"Test":"`+test+`"`) {
					n++
				}
			}
			return n
		}
		if noted, _ := os.ReadFile(record); strings.Contains(string(noted), "of a test that passes") || !strings.Contains(string(noted), "took 3s, want 2s") {
			t.Errorf("%s: recorded %q, want what the failed test said", pkg, noted)
		}
		if status != want.status || count("pass", "TestTimed") != want.passed || count("fail", "TestTimed") != want.fails || count("pass", "TestOfAnother") != 1 {
			t.Errorf("%s: got status %d, want %+v of\n%s", pkg, status, want, &out)
		}
	}
}

func TestAlone(t *testing.T) {
	f := failure{pkg: "./b", tests: []string{"TestA/cell", "TestA/other", "TestB"}}
	for want, args := range map[string][]string{
		"test -p 3 -run A -run=^(TestA|TestB)$ ./b":                   {"test", "-p", "3", "./a", module + "/b", "-run", "A"},
		"test -run OfStores/(x|y)/z -run=^(TestA|TestB)$/(x|y)/z ./b": {"test", "-run", "OfStores/(x|y)/z", "./a"},
		"test -run=A/x -run=^(TestA|TestB)$/x ./b":                    {"test", "-run=A/x", "./b"},
		"test -json -p 3 ./b":                                         {"test", "-json", "-p", "3", "./a", module + "/b"},
	} {
		if got := strings.Join(alone(args, f), " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What a test binary costs is written down, and its status is that of the binary.
func TestCosts(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "costs")
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 1} {
		if got := costs([]string{"sh", "-c", script}, file); got != want {
			t.Errorf("%s: got status %d, want %d", script, got, want)
		}
	}
	text, _ := os.ReadFile(file)
	if n := strings.Count(string(text), "     0      0  "+dir+"\n"); n != 3 {
		t.Errorf("got %q, want 3 lines of 0 seconds", text)
	}
	args := []string{"test", "-count=1", "./x"}
	if got := measured(args, file); len(got) != 4 || !strings.HasSuffix(got[1], " "+measure) {
		t.Errorf("got %q, want -exec", got)
	}
	if got := measured(args[2:], file); len(got) != 1 {
		t.Errorf("got %q without -count=1, want no -exec", got)
	}
}
