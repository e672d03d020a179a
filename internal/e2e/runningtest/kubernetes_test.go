package runningtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// schemasFile has the schemas that kube-apiserver 1.34.2 publishes at /openapi/v3/apis/apps/v1 and
// /openapi/v3/apis/batch/v1: those that a Deployment and a Job use, without descriptions and
// defaults, each on a line. They are from the Kubernetes Authors, under the Apache License 2.0.
const schemasFile = "testdata/kubernetes-1.34.2.json"

// kubernetes has published schemas of Kubernetes, by name.
type kubernetes map[string]*schema

// schema has what published schemas of Kubernetes use of OpenAPI 3.
type schema struct {
	Ref        string `json:"$ref"`
	AllOf      []*schema
	OneOf      []*schema
	Type       string
	Format     string
	Enum       []string
	Properties map[string]*schema
	Additional *schema `json:"additionalProperties"`
	Items      *schema
	Required   []string
	Kinds      []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// published returns the schemas of the file.
func published(t *testing.T) (k kubernetes) {
	t.Helper()
	text, err := os.ReadFile(schemasFile)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// check returns what a server would refuse in a manifest: an unknown field, a value of a wrong type or
// out of its list, a field that is missing.
func (k kubernetes) check(manifest map[string]any) []string {
	group, version, _ := strings.Cut(fmt.Sprint(manifest["apiVersion"]), "/")
	for _, s := range k {
		for _, kind := range s.Kinds {
			if kind.Group == group && kind.Version == version && kind.Kind == manifest["kind"] {
				return k.faults(s, "", manifest)
			}
		}
	}
	return []string{fmt.Sprintf("no kind %v in %v", manifest["kind"], manifest["apiVersion"])}
}

// faults returns how a value differs from its schema. The path is the place of the value.
func (k kubernetes) faults(s *schema, path string, value any) (found []string) {
	if s.Ref != "" {
		return k.faults(k[strings.TrimPrefix(s.Ref, "#/components/schemas/")], path, value)
	}
	for _, all := range s.AllOf {
		found = append(found, k.faults(all, path, value)...)
	}
	if s.OneOf != nil && !slices.ContainsFunc(s.OneOf, func(one *schema) bool { return k.faults(one, path, value) == nil }) {
		found = append(found, fmt.Sprintf("%s: %v has a wrong type", path, value))
	}
	matches := true
	switch s.Type {
	case "object":
		var fields map[string]any
		if fields, matches = value.(map[string]any); matches {
			found = append(found, k.faultsOfFields(s, path, fields)...)
		}
	case "array":
		var items []any
		items, matches = value.([]any)
		for i, item := range items {
			found = append(found, k.faults(s.Items, fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	case "string":
		var text string
		if text, matches = value.(string); matches && s.Enum != nil && !slices.Contains(s.Enum, text) {
			found = append(found, fmt.Sprintf("%s: %s is none of %q", path, text, s.Enum))
		}
	case "boolean":
		_, matches = value.(bool)
	case "integer", "number":
		var number int
		if number, matches = value.(int); s.Format == "int32" && (number < math.MinInt32 || number > math.MaxInt32) {
			found = append(found, fmt.Sprintf("%s: %d is too large", path, number))
		}
	}
	if !matches {
		found = append(found, fmt.Sprintf("%s: %v is no %s", path, value, s.Type))
	}
	return found
}

func (k kubernetes) faultsOfFields(s *schema, path string, fields map[string]any) (found []string) {
	for _, name := range s.Required {
		if _, there := fields[name]; !there {
			found = append(found, fmt.Sprintf("%s.%s is missing", path, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := s.Properties[name]
		if field == nil {
			field = s.Additional
		}
		switch {
		case field != nil:
			found = append(found, k.faults(field, path+"."+name, fields[name])...)
		case s.Properties != nil:
			found = append(found, fmt.Sprintf("%s.%s is unknown", path, name))
		}
	}
	return found
}

// workload has what the rules of docs/running.md say about a Job or a Deployment.
type workload struct {
	Spec struct {
		Template struct {
			Spec struct {
				Grace      int    `yaml:"terminationGracePeriodSeconds"`
				Restart    string `yaml:"restartPolicy"`
				Containers []container
			}
		}
	}
}

type container struct {
	Command []string
	Args    []string
	Env     []struct {
		Name, Value string
		From        struct {
			Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports    []struct{ Name string }
	Ready    *probe `yaml:"readinessProbe"`
	Alive    *probe `yaml:"livenessProbe"`
	Security struct {
		ReadOnly bool `yaml:"readOnlyRootFilesystem"`
		NonRoot  bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

// brokenRules returns which rules of the page a workload breaks.
func (w workload) brokenRules(verb string) (broken []string) {
	pod := w.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		return []string{"not one container"}
	}
	c := pod.Containers[0]
	need := workTime + libraryTime
	if verb != "" {
		need = workTime + runTime
		if len(c.Command) < 5 || c.Command[0] != "holdfast" || c.Command[1] != verb || c.Command[len(c.Command)-2] != "--" {
			broken = append(broken, "the entry is not holdfast with a command")
		}
	}
	if pod.Grace != need {
		broken = append(broken, fmt.Sprintf("a grace period of %d s, want %d s", pod.Grace, need))
	}
	for _, word := range slices.Concat(c.Command, c.Args) {
		if strings.Contains(word, "://") {
			broken = append(broken, "a URL in the arguments")
		}
	}
	store := false
	for _, e := range c.Env {
		store = store || e.Name == "HOLDFAST_URL" || e.Name == "REDIS_URL"
		if strings.HasSuffix(e.Name, "URL") && (e.Value != "" || e.From.Secret.Name == "" || e.From.Secret.Key == "") {
			broken = append(broken, "a URL that is in no Secret")
		}
	}
	if !store {
		broken = append(broken, "no store")
	}
	if verb == "run" && pod.Restart != "Never" {
		broken = append(broken, "a Job whose Pods start again")
	}
	if !c.Security.ReadOnly || !c.Security.NonRoot {
		broken = append(broken, "rights that holdfast does not need")
	}
	return append(broken, c.brokenProbes(verb == "")...)
}

// brokenProbes says what is wrong with probes: a program with the library has two different ones,
// at a port with a name, and a command has none.
func (c container) brokenProbes(library bool) []string {
	switch {
	case !library && (c.Ready != nil || c.Alive != nil):
		return []string{"a probe of a command that waits for its lock"}
	case library && (c.Ready == nil || c.Alive == nil):
		return []string{"a probe is missing"}
	case library && (c.Ready.Get.Path == c.Alive.Get.Path || len(c.Ports) != 1 || c.Ready.Get.Port != c.Ports[0].Name || c.Alive.Get.Port != c.Ports[0].Name):
		return []string{"two probes at one path, or a port without a name"}
	}
	return nil
}

// refusals returns what is wrong with a manifest whose container runs a verb of holdfast, or a
// program with the library if there is no verb.
func refusals(k kubernetes, text, verb string) []string {
	var manifest map[string]any
	var w workload
	if err := yaml.Unmarshal([]byte(text), &manifest); err != nil {
		return []string{err.Error()}
	}
	if found := k.check(manifest); found != nil {
		return found
	}
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		return []string{err.Error()}
	}
	return w.brokenRules(verb)
}

// The manifests of docs/running.md are valid by the published schemas, and keep the rules of the
// page. Each of these faults is found.
func TestManifests(t *testing.T) {
	k := published(t)
	job, deployment := pages.File(t, folder+"job.yaml"), pages.File(t, folder+"deployment.yaml")
	elect := withElect(t, deployment)
	for name, test := range map[string]struct {
		text, verb string
		faults     [][3]string // what stands there, what stands there in its place, what is found
	}{
		"job.yaml": {job, "run", [][3]string{
			{"backoffLimit:", "backofLimit:", ".spec.backofLimit is unknown"},
			{"backoffLimit: 3", "backoffLimit: three", ".spec.backoffLimit: three is no integer"},
			{"- name: report\n        image:", "- image:", "containers[0].name is missing"},
			{"restartPolicy: Never", "restartPolicy: Never\n      restartPolicy: OnFailure", "already defined"},
			{"restartPolicy: Never", "restartPolicy: Nevr", "Nevr is none of"},
			{"restartPolicy: Never", "restartPolicy: Always", "start again"},
			{"name: HOLDFAST_URL", "name: HOLDFAST", "no store"},
			{"backoffLimit: 3", "backoffLimit: 3000000000", "is too large"},
			{"kind: Job", "kind: Jobs", "no kind Jobs"},
			{"GracePeriodSeconds: 50", "GracePeriodSeconds: 30", "a grace period of 30 s"},
			{"command: [holdfast, run, nightly", "command: [sh, -c, holdfast", "not holdfast"},
			{"-w, 10m", "-u, redis://app:secret@redis", "a URL in the arguments"},
			{"valueFrom: {secretKeyRef: {name: holdfast, key: url}}", "value: redis://app:secret@redis", "in no Secret"},
			{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "rights"},
		}},
		"deployment.yaml": {deployment, "", [][3]string{
			{"readinessProbe:", "readyProbe:", "containers[0].readyProbe is unknown"},
			{"replicas: 2", "replicas: two", ".spec.replicas: two is no integer"},
			{"  selector:\n    matchLabels: {app: billing}\n", "", ".spec.selector is missing"},
			{"port: http}\n        livenessProbe", "}\n        livenessProbe", "httpGet.port is missing"},
			{"port: http}\n        livenessProbe", "port: [1]}\n        livenessProbe", "[1] has a wrong type"},
			{"/alive", "/ready", "two probes at one path"},
			{"GracePeriodSeconds: 40", "GracePeriodSeconds: 30", "a grace period of 30 s"},
		}},
		"deployment.yaml with elect": {elect, "elect", [][3]string{
			{"command: [holdfast, elect, billing, --, billing-daemon]", "command: billing-daemon", "is no array"},
		}},
	} {
		if found := refusals(k, test.text, test.verb); found != nil {
			t.Errorf("%s: %q in\n%s", name, found, test.text)
		}
		for _, fault := range test.faults {
			faulty := strings.Replace(test.text, fault[0], fault[1], 1)
			if found := strings.Join(refusals(k, faulty, test.verb), "; "); faulty == test.text || !strings.Contains(found, fault[2]) {
				t.Errorf("%s with %q: found %q, want %q", name, fault[1], found, fault[2])
			}
		}
	}
}

// withElect changes the Deployment as the page says: it gets the command of the page, another grace
// period, and no ports and no probes.
func withElect(t *testing.T, deployment string) string {
	t.Helper()
	before, rest, found := strings.Cut(deployment, "        ports:\n")
	_, after, whole := strings.Cut(rest, "        securityContext:\n")
	if !found || !whole {
		t.Fatal("the Deployment has no ports before its securityContext")
	}
	before = strings.Replace(before, "GracePeriodSeconds: 40", "GracePeriodSeconds: 50", 1)
	return before + "        " + electing(t).text + "        securityContext:\n" + after
}

// electing returns the command of the page for a Deployment with elect.
func electing(t *testing.T) (c struct {
	Command []string
	text    string
},
) {
	t.Helper()
	for _, b := range pages.Of(t, page) {
		if strings.HasPrefix(b.Text, "command: ") {
			c.text = b.Text
		}
	}
	if err := yaml.Unmarshal([]byte(c.text), &c); err != nil || c.Command == nil {
		t.Fatalf("the page has no command of elect: %v", err)
	}
	return c
}
