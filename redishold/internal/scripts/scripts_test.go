package scripts

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

// A script that many ask for at once is the same for all of them.
func TestLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Library
		for range 10 {
			go func() { l.Get("acquire") }()
		}
		synctest.Wait()
		if first := l.Get("acquire"); first != l.Get("acquire") || first.Name() != "acquire" || l.Get("renew").Name() != "renew" {
			t.Errorf("got %q, and another one then", first.Name())
		}
	})
}

func TestEveryScriptHasAHeader(t *testing.T) {
	files, err := sources.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, isScript := strings.CutSuffix(f.Name(), ".lua")
		if !isScript {
			continue
		}
		source := load(name).Source()
		if !strings.HasPrefix(source, "-- "+name+": ") || !strings.Contains(source, "-- KEYS   ") || !strings.Contains(source, "-- Reply  ") {
			t.Errorf("%s does not begin with what it is, its KEYS and its reply", f.Name())
		}
		if strings.Contains(source, "ARGV[") && !strings.Contains(source, "-- ARGV   ") {
			t.Errorf("%s does not say what its ARGV are", f.Name())
		}
	}
}

// What a script uses is in it, once, and what is shared is used and not written
// twice.
func TestSharedScripts(t *testing.T) {
	var names []string // "acquire" and "shared/draw"
	for _, dir := range []string{".", "shared"} {
		files, err := sources.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name, ok := strings.CutSuffix(path.Join(dir, f.Name()), ".lua"); ok {
				names = append(names, name)
			}
		}
	}
	for _, s := range names {
		shared, ok := strings.CutPrefix(s, "shared/")
		if !ok {
			continue
		}
		call, definition := regexp.MustCompile(`\b`+shared+`\(`), "local function "+shared+"("
		users := 0
		for _, name := range names {
			if name == s {
				continue
			}
			header, body, _ := strings.Cut(source(name), "\n\n")
			own := strings.Contains(body, definition)
			uses := call.MatchString(strings.ReplaceAll(body, definition, ""))
			says := regexp.MustCompile(`-- Uses   (.*, )?` + shared + `(,|$|\n)`).MatchString(header)
			switch {
			case own:
				t.Errorf("%s.lua defines %s itself", name, shared)
			case uses != says:
				t.Errorf("%s.lua: calls %s: %v, says so: %v", name, shared, uses, says)
			case uses:
				users++
			}
			if strings.HasPrefix(name, "shared/") {
				continue
			}
			if n := strings.Count(load(name).Source(), definition); n > 1 || uses && n == 0 {
				t.Errorf("%s.lua has %s %d times", name, shared, n)
			}
		}
		if users < 2 {
			t.Errorf("%s is used %d times only", shared, users)
		}
	}
}

// The usual case returns before the functions of the other cases are defined.
func TestUsualCaseFirst(t *testing.T) {
	for name, function := range map[string]string{
		"acquire":           "taken",
		"fair_acquire":      "publish",
		"rw_read_acquire":   "longest",
		"rw_write_acquire":  "scan_readers",
		"semaphore_acquire": "publish",
	} {
		source := load(name).Source()
		draws, _, found := strings.Cut(source, "local function "+function+"(")
		_, usual, _ := strings.Cut(draws, "local function draw(")
		_, usual, _ = strings.Cut(usual, "\nend\n") // the function itself
		if !found || !strings.Contains(usual, "draw(") || !strings.Contains(usual, "return") {
			t.Errorf("%s.lua: the lock is not granted before the function %s is defined", name, function)
		}
	}
}
