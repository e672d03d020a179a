// Package scripts has the Lua scripts that Redis executes: one file for each operation that
// must be atomic.
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

// Lock has the scripts of an exclusive lock in one layout. Keep is nil if the layout has no such
// script.
type Lock struct{ Acquire, Renew, Release, Keep, Abandon, Force, Explain *wire.Script }

// LoadLock returns the scripts of an exclusive lock in one layout. Their names begin with
// `kind`, for example "plain_". For Redisson's layout, `kind` is "".
func LoadLock(kind string) Lock {
	l := Lock{
		Acquire: load(kind + "acquire"),
		Renew:   load(kind + "renew"),
		Release: load(kind + "release"),
		Abandon: load(kind + "abandon"),
		Force:   load(kind + "force"),
		Explain: load(kind + "explain"),
	}
	if kind != "timestamp_" { // old clients of that layout take any lock whose second is over, so Holdfast cannot keep a lock taken
		l.Keep = load(kind + "keep")
	}
	return l
}

// Library loads each script at its first use, because most programs use few of them.
type Library struct{ loaded sync.Map } // of *wire.Script, by name; each script is written once

// Get returns the script called name.
func (l *Library) Get(name string) *wire.Script {
	s, ok := l.loaded.Load(name)
	if !ok {
		s, _ = l.loaded.LoadOrStore(name, load(name))
	}
	return s.(*wire.Script)
}

// load returns a script, with the text of the shared functions that it calls. The line "Uses" in
// the header of the script names these functions. Each of them is a file in the folder shared.
// load puts a function before the first paragraph of the body that calls it. To define a
// function takes time, so a script begins with its usual case, which returns before the
// functions of the other cases are defined.
func load(name string) *wire.Script {
	header, body, _ := strings.Cut(source(name), "\n\n")
	used, added := uses(header), map[string]bool{}
	text := header
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		text += "\n\n"
		if paragraph[0] != ' ' { // the paragraph is not inside a function
			text += shared(used, added, paragraph)
		}
		text += paragraph
	}
	return wire.NewScript(name, text)
}

// uses returns the names in the line "Uses" of a header.
func uses(header string) []string {
	_, used, found := strings.Cut(header, "\n-- Uses   ")
	if !found {
		return nil
	}
	used, _, _ = strings.Cut(used, "\n")
	return strings.Split(used, ", ")
}

// shared returns the text of those functions that the paragraph calls and that were not added
// yet. The text of a function comes after that of the functions it calls.
func shared(names []string, added map[string]bool, paragraph string) (text string) {
	for _, name := range names {
		if !added[name] && strings.Contains(paragraph, name+"(") {
			added[name] = true
			function := source("shared/" + name)
			header, _, _ := strings.Cut(function, "\n\n")
			text += shared(uses(header), added, function) + function + "\n"
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

// Commands returns the Redis commands that the scripts of some families call, each once. The
// family of a script is the part of its name before an underscore, such as "fair", or "" for a
// name without an underscore.
func Commands(families ...string) (names []string) {
	files, _ := sources.ReadDir(".")
	called := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	read := map[string]bool{} // the shared functions that were read already, because most scripts use the same ones
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
		for _, m := range called.FindAllStringSubmatch(shared(uses(header), read, text)+text, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AllCommands returns the commands that a user needs for all kinds of lock, as ACL rules.
func AllCommands() string {
	used := Commands("", "fair", "rw", "semaphore")
	return "+eval +evalsha +subscribe +unsubscribe +publish +spublish +" + strings.ToLower(strings.Join(used, " +"))
}
