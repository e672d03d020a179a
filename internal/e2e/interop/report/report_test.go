package main

import (
	"bytes"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const aRun = `{"Action":"attr","Test":"TestLock/4.7.0/all/03_Go_waits","Key":"wake-up","Value":"6.23ms"}
{"Action":"attr","Test":"TestLock/4.7.0/all/03_Go_waits","Key":"observed","Value":"a, \"b\"\nc"}
{"Action":"attr","Test":"TestLock/4.7.0/all/03_Go_waits","Key":"observed","Value":"d"}
{"Action":"pass","Test":"TestLock/4.7.0/all/03_Go_waits"}
{"Action":"attr","Test":"TestLock/3.17.7/all/03_Go_waits","Key":"observed","Value":"a, \"b\"\nc"}
{"Action":"pass","Test":"TestLock/3.17.7/all/03_Go_waits"}
{"Action":"skip","Test":"TestStress/3.17.7/all/17_and_20,_read-write"}
{"Action":"pass","Test":"TestStress/4.7.0/all/17_and_20,_read-write"}
{"Action":"pass","Test":"TestLock/4.7.0"}
`

const itsFile = `case,group,name,3.17.7,4.7.0,observed on,observed
03,Lock,Go waits,passed,passed,3.17.7 4.7.0,"a, ""b""
c"
03,Lock,Go waits,passed,passed,4.7.0,d
17 and 20,Stress,read-write,,passed,,
,Wake-ups,measured,0,1,,
,Wake-ups,p50-ms,,6.2,,
,Wake-ups,longest-ms,,6.2,,
`

// reported runs the command on a run and a file.
func reported(t *testing.T, run1, file string, args ...string) (code int, out, after string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.csv")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	code = run(append(args, "-file", path), strings.NewReader(run1), &b, &b)
	left, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, b.String(), string(left)
}

func TestReport(t *testing.T) {
	if code, out, after := reported(t, aRun, "old", "-update"); code != 0 || after != itsFile {
		t.Errorf("-update: exit %d, %s\n%s", code, out, after)
	}
	for name, file := range map[string]string{
		"the run":            itsFile,
		"other observations": strings.NewReplacer(",d\n", ",e\n", "6.2", "7").Replace(itsFile),
	} {
		if code, out, after := reported(t, aRun, file); code != 0 || after != file {
			t.Errorf("%s: exit %d, %s", name, code, out)
		}
	}
	for name, of := range map[string]struct{ file, lacks string }{
		"another result":  {strings.Replace(itsFile, "read-write,,", "read-write,passed,", 1), "lacks: 17 and 20,Stress,read-write,,passed\n"},
		"another version": {strings.Replace(itsFile, "4.7.0", "4.6.0", 1), "lacks: case,group,name,3.17.7,4.7.0\n"},
		"a case less":     {strings.Replace(itsFile, "17 and 20,Stress,read-write,,passed,,\n", "", 1), "lacks: 17 and 20,"},
		"a case more":     {itsFile + "18,Lock,a lease,passed,passed,,\n", "it has more"},
		"an empty file":   {"", "lacks: case,"},
		"another file":    {"old", "lacks: case,"},
		"no CSV":          {"a,b\nc\n", "wrong number of fields"},
	} {
		if code, out, after := reported(t, aRun, of.file); code != 1 || !strings.Contains(out, of.lacks) || after != of.file {
			t.Errorf("%s: exit %d, %s", name, code, out)
		}
	}
}

// What is written is read again.
func TestWrittenIsRead(t *testing.T) {
	r, err := read(strings.NewReader(aRun), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "results.csv")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := csv.NewReader(file).ReadAll()
	if err != nil || !slices.EqualFunc(got, r.rows(), slices.Equal) {
		t.Errorf("got %q, %v, want %q", got, err, r.rows())
	}
	if got := resultsOf(got); !slices.EqualFunc(got, r.results(), slices.Equal) {
		t.Errorf("got the results %q, want %q", got, r.results())
	}
}

func TestReportOfFailures(t *testing.T) {
	failed := aRun + `{"Action":"output","Test":"TestLock/4.7.0/all/04_x","Output":"it broke\n"}` + "\n" + `{"Action":"fail","Test":"TestLock/4.7.0/all/04_x"}` + "\n"
	for name, in := range map[string]string{
		"a case":               failed,
		"a build":              aRun + `{"Action":"build-output","Output":"it broke\n"}` + "\n" + `{"Action":"build-fail"}` + "\n",
		"a run that broke off": aRun + "it broke\n" + `{"Action":"attr","Test":"TestLock/4.7.0/all/05_y","Key":"observed","Value":"a"}` + "\n",
		"a package":            aRun + `{"Action":"output","Output":"it broke\n"}` + "\n" + `{"Action":"fail"}` + "\n",
	} {
		if code, out, after := reported(t, in, "old", "-update"); code != 1 || !strings.Contains(out, "it broke") || after != "old" {
			t.Errorf("%s: exit %d, %s", name, code, out)
		}
	}
	if code, _, _ := reported(t, "", "old"); code != 1 {
		t.Errorf("nothing was run: exit %d, want 1", code)
	}
}
