package repo

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows lists the packages of the repository that each package of the root module may
// import. It is the whole map, so that a new arrow is a decision. Each package stands below
// those that it may import.
func arrows() []arrow {
	return []arrow{
		{"driver", nil},
		{"fence", nil},
		{"internal/await", nil},
		{"internal/background", nil},
		{"internal/bounded", nil},
		{"internal/clock", nil},
		{"internal/deadline", nil},
		{"internal/plural", nil},
		{"internal/queue", nil},
		{"internal/redisurl", nil},
		{"internal/repo", nil},
		{"internal/repo/report", []string{"internal/repo"}},
		{"internal/stack", nil},
		{"internal/collect", nil},
		{"internal/tlsfile", nil},
		{"internal/uuid", nil},
		{"internal/webpage", nil},
		{"internal/unsent", []string{"driver"}},
		{"internal/answers", []string{"driver"}},
		{"internal/sqlidle", []string{"internal/unsent"}},
		{"internal/retry", []string{"driver", "internal/deadline"}},
		{"internal/renew", []string{"driver", "internal/clock", "internal/deadline", "internal/retry"}},
		{"internal/conformance", []string{"driver", "internal/retry", "internal/uuid"}},
		{"admin", []string{"driver"}},
		{"admin/observe", []string{"admin", "driver"}},
		{"internal/budget", []string{"admin", "internal/retry"}},
		{"internal/ordered", []string{"driver", "admin", "internal/background", "internal/budget", "internal/clock", "internal/retry", "internal/unsent"}},
		{"internal/document", []string{"driver", "admin"}},
		{"memhold", []string{"driver", "admin", "internal/background", "internal/deadline", "internal/document", "internal/retry"}},
		{"internal/versioned", []string{"driver", "admin", "internal/background", "internal/budget", "internal/document", "internal/retry", "internal/unsent"}},
		{"filehold", []string{"driver", "internal/unsent", "internal/versioned"}},
		{"internal/faulty", []string{"driver", "memhold"}},
		{"quorum", []string{"driver", "admin", "internal/background", "internal/deadline", "internal/retry"}},
		{"internal/rows", []string{"driver", "admin", "internal/background", "internal/budget", "internal/deadline", "internal/retry", "internal/unsent"}},
		{"internal/answers/answerstest", []string{"driver", "internal/answers", "internal/rows"}},
		{"internal/shedlock", []string{"driver", "internal/rows"}},
		{"internal/rows/rowstest", []string{"driver", "internal/conformance", "internal/rows"}},
		{"redishold/internal/wire", []string{"driver", "internal/unsent"}},
		{"redishold/internal/layout", []string{"driver", "redishold/internal/wire"}},
		{"redishold/internal/clients", []string{"driver", "admin", "internal/background", "redishold/internal/layout", "redishold/internal/wire"}},
		{"redishold/internal/listing", []string{"driver", "admin", "internal/budget", "redishold/internal/clients", "redishold/internal/layout", "redishold/internal/wire"}},
		{"redishold/internal/eventlog", []string{"admin", "redishold/internal/clients", "redishold/internal/layout", "redishold/internal/wire"}},
		{"redishold/internal/scripts", []string{"redishold/internal/wire"}},
		{"redishold/internal/waiting", []string{"driver", "internal/retry", "redishold/internal/layout", "redishold/internal/wire"}},
		{"redishold/internal/kinds", []string{
			"driver", "admin", "redishold/internal/layout", "redishold/internal/scripts", "redishold/internal/waiting", "redishold/internal/wire",
		}},
		{"redishold/internal/fair", []string{
			"driver", "redishold/internal/kinds", "redishold/internal/layout", "redishold/internal/scripts", "redishold/internal/waiting", "redishold/internal/wire",
		}},
		{"redishold/unleased", []string{"driver", "internal/background", "internal/retry", "redishold/internal/kinds", "redishold/internal/layout", "redishold/internal/wire"}},
		{"redishold", []string{
			"driver", "admin", "internal/background", "internal/retry",
			"redishold/internal/clients", "redishold/internal/eventlog", "redishold/internal/listing", "redishold/internal/layout", "redishold/internal/wire",
			"redishold/internal/fair", "redishold/internal/kinds", "redishold/internal/scripts", "redishold/internal/waiting", "redishold/unleased",
		}},
		{"redishold/internal/adapter", []string{"driver", "redishold", "redishold/internal/wire", "internal/deadline", "internal/retry", "internal/stack", "internal/unsent"}},
		{"redishold/doctor", []string{"driver", "admin", "internal/plural", "internal/uuid", "redishold", "redishold/internal/clients", "redishold/internal/layout", "redishold/internal/wire"}},
		{".", []string{"driver", "internal/background", "internal/clock", "internal/collect", "internal/deadline", "internal/queue", "internal/renew", "internal/retry", "internal/stack", "internal/uuid"}},
		{"internal/must", []string{"."}},
		{"internal/sim", []string{".", "admin", "driver", "internal/retry"}},
		{"internal/meter", []string{".", "driver"}},
		{"internal/alone", []string{".", "driver"}},
		{"elect", []string{".", "admin", "internal/alone", "internal/retry"}},
		{"job", []string{".", "internal/alone"}},
		{"named", []string{".", "internal/alone"}},
		{"once", []string{".", "internal/alone"}},
		{"audit", []string{".", "admin", "driver", "internal/background"}},
		{"dash", []string{".", "admin", "admin/observe", "driver", "internal/plural", "internal/retry", "internal/webpage"}},
		{"driver/drivertest", []string{"driver", "admin", "internal/await", "internal/conformance", "internal/retry", "internal/uuid"}},
		{"admin/admintest", []string{"driver", "admin", "internal/conformance", "internal/uuid"}},
	}
}

// commandArrows are the arrows within the module of the command. Its rooms store, supervise,
// operate, serve and demo stand beside each other: the commands of cli connect them.
func commandArrows() []arrow {
	return []arrow{
		{"internal/config", nil},
		{"internal/supervise/console", nil},
		{"internal/supervise/guard", nil},
		{"internal/output", nil},
		{"internal/open", []string{"internal/config"}},
		{"internal/supervise/procgroup", []string{"internal/supervise/guard"}},
		{"internal/store", []string{"internal/config", "internal/open", "internal/output"}},
		{"internal/operate", []string{"internal/output"}},
		{"internal/serve", []string{"internal/config", "internal/output"}},
		{"internal/supervise", []string{"internal/open", "internal/output", "internal/supervise/procgroup"}},
		{"internal/demo", []string{"internal/open"}},
		{"internal/cli", []string{
			"internal/config", "internal/demo", "internal/open", "internal/operate", "internal/output", "internal/supervise/procgroup",
			"internal/serve", "internal/store", "internal/supervise",
		}},
		{".", []string{"internal/cli"}},
	}
}

type arrow struct {
	from string
	to   []string
}

// importsPointDown checks the arrows. Stores work without the core, the core does not know
// the packages for operators, and no package below the root knows the root. In the
// command, no room imports another of its floor.
func importsPointDown(t *testing.T, r *repository) {
	pointDown(t, r, ".", arrows())
	pointDown(t, r, "cmd/holdfast", commandArrows())
}

// pointDown compares the imports within a module with its arrows.
func pointDown(t *testing.T, r *repository, module string, list []arrow) {
	allowed, seen := map[string][]string{}, []string{}
	for _, a := range list {
		for _, to := range a.to {
			if !slices.Contains(seen, to) {
				t.Errorf("arrows: %s may import %s, which does not stand above it", a.from, to)
			}
		}
		allowed[a.from], seen = a.to, append(seen, a.from)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Code)) {
		if strings.HasSuffix(name, "_test.go") || r.moduleOf(name) != module {
			continue
		}
		folder, _ := within(path.Dir(name), module)
		may, known := allowed[folder]
		if !known {
			t.Errorf("%s: package %s has no place in arrows", name, folder)
			continue
		}
		for _, spec := range r.Code[name].Imports {
			to, _ := strconv.Unquote(spec.Path.Value)
			if to, ours := within(to, r.modules[module].path); ours && !slices.Contains(may, to) {
				t.Errorf("%s imports %s, which is not among the arrows of %s", name, to, folder)
			}
		}
	}
}

// within returns the folder of a package of a module, "." for its root.
func within(pkg, module string) (folder string, ours bool) {
	switch module {
	case pkg:
		return ".", true
	case ".":
		return pkg, true
	}
	return strings.CutPrefix(pkg, module+"/")
}

func rootIsStandardLibraryOnly(t *testing.T, r *repository) {
	root := r.modules["."]
	if len(root.requires) > 0 || root.replaces {
		t.Errorf("go.mod has a require or replace directive")
	}
	nested := map[string]bool{}
	for dir, m := range r.modules {
		if dir != "." {
			nested[m.path] = true
		}
	}
	for name, file := range r.Code {
		if r.moduleOf(name) != "." {
			continue
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(imported, "/")
			own := imported == root.path || strings.HasPrefix(imported, root.path+"/")
			if nested[imported] || imported == "C" || strings.Contains(first, ".") && !own {
				t.Errorf("%s: import of %s, which is not the standard library", r.at(spec), imported)
			}
		}
	}
}
