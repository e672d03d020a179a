package promhold_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/promhold"
)

// The files for this module in the repository.
const (
	boardFile = "../docs/grafana/holdfast.json"
	rulesFile = "../docs/alerts.yml"
	guideFile = "../docs/metrics.md"
)

// TestBoard requires that every expression of the Grafana dashboard uses exported metrics,
// and that every exported metric is on it.
func TestBoard(t *testing.T) {
	var board any
	if err := json.Unmarshal(readFile(t, boardFile), &board); err != nil {
		t.Fatalf("%s: %v", boardFile, err)
	}
	exprs := slices.Concat(stringsAt(board, "expr"), stringsAt(board, "query"), stringsAt(board, "definition"))
	if len(exprs) < 20 {
		t.Fatalf("%s has only %d expressions", boardFile, len(exprs))
	}
	used := checkExprs(t, boardFile, exprs)
	for name := range vocabulary(t) {
		if !used[name] {
			t.Errorf("%s does not show %s", boardFile, name)
		}
	}
	panels := board.(map[string]any)["panels"].([]any)
	ids, taken := map[any]bool{}, map[[2]int]any{}
	for _, p := range panels {
		panel := p.(map[string]any)
		ids[panel["id"]] = true
		checkPlace(t, panel, taken)
	}
	if len(ids) != len(panels) {
		t.Errorf("%s has %d panels with %d ids", boardFile, len(panels), len(ids))
	}
}

// checkPlace requires that a panel is on the grid, and on no other panel.
func checkPlace(t *testing.T, panel map[string]any, taken map[[2]int]any) {
	t.Helper()
	place := panel["gridPos"].(map[string]any)
	at := func(key string) int { return int(place[key].(float64)) }
	if at("w") < 1 || at("h") < 1 || at("x") < 0 || at("x")+at("w") > 24 {
		t.Errorf("panel %q lies at %v", panel["title"], place)
	}
	for x := at("x"); x < at("x")+at("w"); x++ {
		for y := at("y"); y < at("y")+at("h"); y++ {
			if other := taken[[2]int{x, y}]; other != nil {
				t.Errorf("panel %q lies on %q", panel["title"], other)
				return
			}
			taken[[2]int{x, y}] = panel["title"]
		}
	}
}

// rules is the part of Prometheus' rule files that this test needs.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// TestRules requires that alerts use exported metrics, and that the guide says what to do
// about them.
func TestRules(t *testing.T) {
	var file rules
	decoder := yaml.NewDecoder(strings.NewReader(string(readFile(t, rulesFile))))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatalf("%s: %v", rulesFile, err)
	}
	guide := string(readFile(t, guideFile))
	var exprs []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			exprs = append(exprs, rule.Expr)
			if !strings.Contains(guide, "### "+rule.Alert+"\n") {
				t.Errorf("%s has no section on %s", guideFile, rule.Alert)
			}
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s lacks its severity, summary or description", rule.Alert)
			}
			if _, err := time.ParseDuration(rule.For); rule.For != "" && err != nil {
				t.Errorf("%s: %v", rule.Alert, err)
			}
			checkTexts(t, rule.Alert, rule.Expr, rule.Annotations)
		}
	}
	if len(exprs) == 0 {
		t.Fatalf("%s has no rules", rulesFile)
	}
	checkExprs(t, rulesFile, exprs)
}

// TestGuide compares the table of docs/metrics.md with what is exported.
func TestGuide(t *testing.T) {
	guide := string(readFile(t, guideFile))
	words := vocabulary(t)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(holdfast_\\w+)` \\|(.*)$").FindAllStringSubmatch(guide, -1) {
		rows[m[1]] = m[2]
	}
	for name, labels := range words {
		for label := range labels {
			if !strings.Contains(rows[name], "`"+label+"`") {
				t.Errorf("%s: the row of %s does not tell of the label %s", guideFile, name, label)
			}
		}
	}
	for name := range rows {
		if words[name] == nil {
			t.Errorf("%s tells of %s, which is not exported", guideFile, name)
		}
	}
}

// vocabulary returns the labels of each exported metric, of a program that has used all of
// them.
func vocabulary(t *testing.T) map[string]map[string]bool {
	t.Helper()
	m := promhold.New(&promhold.Options{Elections: []string{"leader"}})
	for _, kind := range []holdfast.EventType{holdfast.EventWait, holdfast.EventAcquire, holdfast.EventRenew, holdfast.EventRelease, holdfast.EventLoss} {
		for _, name := range []string{"leader", "job"} {
			m.Observe(t.Context(), holdfast.Event{Type: kind, Name: name, Kind: "mutex", Backend: "memory"})
		}
	}
	words := make(map[string]map[string]bool)
	for name, all := range gather(t, m) {
		words[name] = make(map[string]bool)
		for label := range all[0].labels {
			words[name][label] = true
		}
	}
	return words
}

var (
	metricName = regexp.MustCompile(`holdfast_\w+`)
	grouped    = regexp.MustCompile(`\bby \(([^)]*)\)`)
	labelsIn   = regexp.MustCompile(`\bby \(([^)]*)\)|\{([^{}]*)\}`)
	labelOf    = regexp.MustCompile(`\$labels\.(\w+)`)
	labelName  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"|(\w+)`)
)

// checkExprs checks the metrics and labels that expressions, legends or texts name, and
// returns the metrics.
func checkExprs(t *testing.T, file string, exprs []string) map[string]bool {
	t.Helper()
	words := vocabulary(t)
	used := make(map[string]bool)
	for _, expr := range exprs {
		known := map[string]bool{"job": true, "instance": true}
		for _, name := range metricName.FindAllString(expr, -1) {
			base := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				base = strings.TrimSuffix(base, suffix)
			}
			histogram := strings.HasSuffix(base, "_seconds") && base != "holdfast_oldest_hold_seconds"
			if words[base] == nil || histogram != (base != name) {
				t.Errorf("%s: %s is not exported, in %s", file, name, expr)
			}
			used[base] = true
			maps.Copy(known, words[base])
			known["le"] = known["le"] || strings.HasSuffix(name, "_bucket")
		}
		if metricName.MatchString(expr) {
			checkLabels(t, file, expr, known)
		}
	}
	return used
}

func checkLabels(t *testing.T, file, expr string, known map[string]bool) {
	t.Helper()
	for _, list := range labelsIn.FindAllStringSubmatch(expr, -1) {
		for _, m := range labelName.FindAllStringSubmatch(list[1]+list[2], -1) {
			if label := m[1] + m[2]; !known[label] {
				t.Errorf("%s: there is no label %s, in %s", file, label, expr)
			}
		}
	}
}

// checkTexts requires that the expression of an alert keeps the labels that its texts name.
func checkTexts(t *testing.T, alert, expr string, texts map[string]string) {
	t.Helper()
	for _, text := range texts {
		for _, m := range labelOf.FindAllStringSubmatch(text, -1) {
			for _, by := range grouped.FindAllStringSubmatch(expr, -1) {
				if !strings.Contains(", "+by[1]+",", ", "+m[1]+",") {
					t.Errorf("%s: no label %s is left by %s", alert, m[1], expr)
				}
			}
		}
	}
}

// stringsAt returns the strings under a key, at any depth.
func stringsAt(node any, key string) (found []string) {
	switch n := node.(type) {
	case map[string]any:
		for k, v := range n {
			if s, ok := v.(string); ok && k == key {
				found = append(found, s)
			}
			found = append(found, stringsAt(v, key)...)
		}
	case []any:
		for _, v := range n {
			found = append(found, stringsAt(v, key)...)
		}
	}
	return found
}

// readFile skips the test if the module is alone, as in a module cache.
func readFile(t *testing.T, name string) []byte {
	t.Helper()
	if _, err := os.Stat("../docs"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("this is the module alone")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
