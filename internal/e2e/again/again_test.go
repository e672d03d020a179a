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

// program is a test package: TestTimed is listed, TestOther is not.
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
	const late, path = `t.Error("took 3s, want 2s")`, module + "/x"
	for name, test := range map[string]struct {
		timed, other string // what the tests do at the first run
		record       bool
		status       int
		says         string
	}{
		"late":               {late, "", true, 0, "again: " + path + " runs once more, alone: TestTimed\n"},
		"late in a subtest":  {`t.Run("a cell", func(t *testing.T) { ` + late + ` })`, "", true, 0, "alone: TestTimed/a_cell\n"},
		"nobody asked":       {late, "", false, 1, "FAIL\t" + path},
		"another failed":     {"", late, true, 1, "TestOther is not listed as timed"},
		"race":               {late + "\nc, n := make(chan bool), 0\ngo func() { n++; close(c) }()\nn++\n<-c", "", true, 1, `the output has "WARNING: DATA RACE"`},
		"panic":              {late + "\n" + `panic("at the disco")`, "", true, 1, `the output has "panic:"`},
		"does not compile":   {"return 7", "", true, 1, "no second run"},
		"exits":              {"os.Exit(1)", "", true, 1, "failed without a failed test"},
		"at the second, too": {`os.Remove("ran"); ` + late, "", true, 1, "runs once more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "go.mod", "module "+module+"\n\ngo 1.25\n")
			write(t, dir, "x/x_test.go", fmt.Sprintf(program, test.timed, test.other))
			record := ""
			if test.record {
				record = filepath.Join(dir, "record")
			}
			args := []string{"test", "-C", dir, "-count=1", "-vet=off", "-ldflags=-w"}
			if name == "race" {
				args = append(args, "-race")
			}
			var out bytes.Buffer
			status := timed{path: {"TestTimed"}}.run(append(args, "./x"), record, &out)
			if status != test.status || !strings.Contains(out.String(), test.says) {
				t.Errorf("got status %d, want %d and %q in\n%s", status, test.status, test.says, &out)
			}
			noted, _ := os.ReadFile(filepath.Join(dir, "record"))
			again := test.status == 0 && test.timed != ""
			if got := strings.HasPrefix(string(noted), path+": TestTimed"); got != again {
				t.Errorf("recorded %q, want a line: %v", noted, again)
			}
			if again && !strings.Contains(out.String(), "took 3s, want 2s") {
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
	list := timed{module + "/a": {"TestTimed"}, module + "/b": {"TestMatrix/*/F1"}}
	for output, want := range map[string]string{
		fails("a", "TestTimed", "found unexpected goroutines:"):                             "",
		fails("a", "TestTimed", "process 1 op 7 (write, token 3) and"):                      "",
		fails("a", "TestTimed", "outcome: got LU, want L; two holders at the same time: 1"): "",
		fails("a", "TestTimed", "outcome: got L, want A; two holders at the same time: 0"):  "a",
		fails("a", "TestTimed", "breach: keys without a TTL"):                               "",
		fails("a", "TestTimed", "violation: overlap"):                                       "",
		fails("a", "TestTimed", "fatal error: concurrent map writes"):                       "",
		"ok  \tp\t1s\n" + fails("a", "TestTimed") + "FAIL\n":                                "a",
		fails("a", "TestTimed") + fails("b", "TestMatrix/single/F1/rw"):                     "a b",
		fails("a", "TestTimed") + fails("b", "TestMatrix/single/F12"):                       "",
		fails("a", "TestTimed") + fails("b", "TestTimed"):                                   "",
		fails("a", "TestOther", "lock \"x\": no answer from the store: EOF"):                "a",
		fails("a", "TestOther", "context deadline exceeded", "violation: overlap"):          "",
		fails("a", "TestOther") + fails("a", "TestTimed", "i/o timeout"):                    "",
		fails("a", "TestTimed") + "FAIL\tc [build failed]\n":                                "",
		"--- FAIL: TestTimed (1s)\nok  \tp\t1s\n":                                           "",
		"go: no such tool\n": "",
	} {
		failed, err := list.failures(output)
		var got []string
		for _, f := range failed {
			got = append(got, strings.TrimPrefix(f.pkg, module+"/"))
		}
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("got %q, %v, want %q of\n%s", got, err, want, output)
		}
	}
}

// With events, a reader gets those of the run that passed, and of each package once.
func TestRunJSON(t *testing.T) {
	const path = module + "/x"
	dir := t.TempDir()
	write(t, dir, "go.mod", "module "+module+"\n\ngo 1.25\n")
	write(t, dir, "x/x_test.go", fmt.Sprintf(program, `t.Error("took 3s, want 2s")`, ""))
	write(t, dir, "y/y_test.go", "package y\n\nimport \"testing\"\n\nfunc TestOfAnother(t *testing.T) {}\n")
	args, record := []string{"test", "-C", dir, "-count=1", "-vet=off", "-json", "./x", "./y"}, filepath.Join(dir, "record")
	for _, want := range []struct {
		list                  timed
		status, passed, fails int
	}{
		{timed{path: {"TestNone"}}, 1, 0, 1},
		{timed{path: {"TestTimed"}}, 0, 1, 0},
	} {
		os.Remove(filepath.Join(dir, "x", "ran"))
		var out bytes.Buffer
		status := want.list.run(args, record, &out)
		count := func(action, test string) (n int) {
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, `"Action":"`+action+`"`) && strings.Contains(line, `"Test":"`+test+`"`) {
					n++
				}
			}
			return n
		}
		if status != want.status || count("pass", "TestTimed") != want.passed || count("fail", "TestTimed") != want.fails || count("pass", "TestOfAnother") != 1 {
			t.Errorf("got status %d, want %+v of\n%s", status, want, &out)
		}
	}
}

func TestAlone(t *testing.T) {
	f := failure{pkg: "./b", tests: []string{"TestA/cell", "TestB"}}
	for want, args := range map[string][]string{
		"test -p 3 -run A/./b -run=^(TestA|TestB)$ ./b": {"test", "-p", "3", "./a", module + "/b", "-run", "A/./b"},
		"test -json -p 3 ./b":                           {"test", "-json", "-p", "3", "./a", module + "/b"},
	} {
		if got := strings.Join(alone(args, f), " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestList(t *testing.T) {
	list, err := parseTimed(timedList)
	if err != nil || len(list) == 0 {
		t.Errorf("got %d packages, %v", len(list), err)
	}
	if _, err := parseTimed("internal/e2e/matrix TestMatrix\n"); err == nil {
		t.Error("a line without a reason is accepted")
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
