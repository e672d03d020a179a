// Package scripts has what runs inside of Redis: one Lua file for each step that must
// be atomic.
package scripts

import (
	"embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

//go:embed *.lua shared/*.lua
var sources embed.FS

// Lock are the scripts of a lock that is one key. Keep is nil where the layout has none.
type Lock struct{ Acquire, Renew, Release, Keep, Abandon, Break, Explain *wire.Script }

// LoadLock returns the scripts whose names begin with kind.
func LoadLock(kind string) Lock {
	l := Lock{
		Acquire: load(kind + "acquire"),
		Renew:   load(kind + "renew"),
		Release: load(kind + "release"),
		Abandon: load(kind + "abandon"),
		Break:   load(kind + "force"),
		Explain: load(kind + "explain"),
	}
	if kind != "timestamp_" { // others read that layout by the second, and take what has ended
		l.Keep = load(kind + "keep")
	}
	return l
}

// Library has the scripts that are loaded when they are first used: most programs use
// few of them.
type Library struct{ loaded sync.Map } // of *wire.Script, by name: each is written once

// Get returns the script of a name.
func (l *Library) Get(name string) *wire.Script {
	s, ok := l.loaded.Load(name)
	if !ok {
		s, _ = l.loaded.LoadOrStore(name, load(name))
	}
	return s.(*wire.Script)
}

// load returns a script. The functions that its header says it uses, each a file in
// shared, stand between the header and the rest, and so do those that they use.
func load(name string) *wire.Script {
	header, body, _ := strings.Cut(source(name), "\n\n")
	return wire.NewScript(name, header+"\n\n"+shared(header, map[string]bool{})+body)
}

// shared returns the functions that a header names and that were not added yet, each
// after those that it uses.
func shared(header string, added map[string]bool) (text string) {
	_, used, _ := strings.Cut(header, "\n-- Uses   ")
	used, _, _ = strings.Cut(used, "\n")
	for _, name := range strings.Split(used, ", ") {
		if name != "" && !added[name] {
			added[name] = true
			function := source("shared/" + name)
			header, _, _ := strings.Cut(function, "\n\n")
			text += shared(header, added) + function + "\n"
		}
	}
	return text
}

func source(name string) string {
	text, err := sources.ReadFile(name + ".lua")
	if err != nil {
		panic("redishold: " + err.Error()) // the file is part of the program
	}
	return string(text)
}

// Commands returns those that the scripts of some families call by their names, each
// once. A family is what names begin with, up to an underscore: "fair"; "" for names
// without one.
func Commands(families ...string) (names []string) {
	files, _ := sources.ReadDir(".")
	called := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	read := map[string]bool{} // shared functions: most scripts use the same
	for _, file := range files {
		name, isScript := strings.CutSuffix(file.Name(), ".lua")
		family, _, found := strings.Cut(name, "_")
		if !found {
			family = ""
		}
		if !isScript || !slices.Contains(families, family) {
			continue
		}
		text := source(name)
		header, _, _ := strings.Cut(text, "\n\n")
		for _, m := range called.FindAllStringSubmatch(shared(header, read)+text, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AllCommands returns the commands that a user of the engine needs, as ACL rules.
func AllCommands() string {
	used := Commands("", "fair", "rw", "semaphore")
	return "+eval +evalsha +subscribe +unsubscribe +publish +spublish +" + strings.ToLower(strings.Join(used, " +"))
}
