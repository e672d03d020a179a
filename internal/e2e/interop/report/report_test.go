package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const aRun = `{"Action":"attr","Test":"TestLock/4.7.0/all/03_Go_waits","Key":"wake-up","Value":"6.2ms"}
{"Action":"attr","Test":"TestLock/4.7.0/all/03_Go_waits","Key":"observed","Value":"a | b"}
{"Action":"attr","Test":"TestLock/4.7.0/all/03_Go_waits","Key":"observed","Value":"c"}
{"Action":"pass","Test":"TestLock/4.7.0/all/03_Go_waits"}
{"Action":"attr","Test":"TestLock/3.17.7/all/03_Go_waits","Key":"observed","Value":"a | b"}
{"Action":"pass","Test":"TestLock/3.17.7/all/03_Go_waits"}
{"Action":"skip","Test":"TestLock/3.17.7/all/23_tokens"}
{"Action":"pass","Test":"TestLock/4.7.0/all/23_tokens"}
{"Action":"pass","Test":"TestLock/4.7.0"}
`

const itsResults = `| | case | 3.17.7 | 4.7.0 |
|---|---|---|---|
| Lock | 03 Go waits | yes | yes |
|  | 23 tokens | – | yes |
`

const itsFigures = `| version | wake-ups measured | median | longest |
|---|---|---|---|
| 4.7.0 | 1 | 6.2ms | 6.2ms |

| case | versions | seen |
|---|---|---|
| 03 Go waits | 3.17.7, 4.7.0 | a \| b |
| 03 Go waits | 4.7.0 | c |
`

// reported runs the command on a run and a document.
func reported(t *testing.T, run1, doc string, args ...string) (code int, out, after string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	code = run(append(args, "-doc", path), strings.NewReader(run1), &b, &b)
	left, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, b.String(), string(left)
}

func document(results, figures string) string {
	return "before\n<!-- results: begin -->\n\n" + results + "\n<!-- results: end -->\nbetween\n<!-- figures: begin -->\n\n" + figures + "\n<!-- figures: end -->\n"
}

func TestReport(t *testing.T) {
	if code, out, after := reported(t, aRun, document("old", "old"), "-update"); code != 0 || after != document(itsResults, itsFigures) {
		t.Errorf("-update: exit %d, %s\n%s", code, out, after)
	}
	if code, out, _ := reported(t, aRun, document(itsResults, "of another run")); code != 0 {
		t.Errorf("the table of the run: exit %d, %s", code, out)
	}
	if code, out, _ := reported(t, aRun, document("old", "old")); code != 1 || !strings.Contains(out, "is not that of this run") || !strings.Contains(out, "lacks: | ") {
		t.Errorf("another table: exit %d, %s", code, out)
	}
	if code, _, _ := reported(t, aRun, "no marks"); code != 1 {
		t.Errorf("no marks: exit %d", code)
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
		if code, out, after := reported(t, in, document("old", "old"), "-update"); code != 1 || !strings.Contains(out, "it broke") || after != document("old", "old") {
			t.Errorf("%s: exit %d, %s", name, code, out)
		}
	}
	if code, _, _ := reported(t, "", document("old", "old")); code != 1 {
		t.Errorf("nothing was run: exit %d, want 1", code)
	}
}
