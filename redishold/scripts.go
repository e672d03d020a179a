package redishold

import (
	"embed"
	"strings"
)

//go:embed scripts/*.lua scripts/shared/*.lua
var sources embed.FS

// lockScripts are those of a lock that is one key.
type lockScripts struct{ acquire, renew, release, abandon, breakHold, explain, probe *Script }

// loadLockScripts returns the scripts whose names begin with kind, and a probe.
func loadLockScripts(kind, probe string) lockScripts {
	return lockScripts{
		acquire:   loadScript(kind + "acquire"),
		renew:     loadScript(kind + "renew"),
		release:   loadScript(kind + "release"),
		abandon:   loadScript(kind + "abandon"),
		breakHold: loadScript(kind + "break"),
		explain:   loadScript(kind + "explain"),
		probe:     loadScript(probe),
	}
}

// scripts are the engine's Lua scripts; each file says what it takes and
// answers.
type scripts struct {
	lockScripts // of an rlock

	acquireAll, renewAll, releaseAll *Script // of several locks
	register, client, replicas       *Script
}

func loadScripts() scripts {
	return scripts{
		lockScripts: loadLockScripts("", "probe"),
		acquireAll:  loadScript("acquire_all"),
		renewAll:    loadScript("renew_all"),
		releaseAll:  loadScript("release_all"),
		register:    loadScript("register"),
		client:      loadScript("client"),
		replicas:    loadScript("replicas"),
	}
}

// loadScript returns a script. The functions that its header says it uses, each a
// file in scripts/shared, stand between the header and the rest, and so do those
// that they use.
func loadScript(name string) *Script {
	header, body, _ := strings.Cut(source(name), "\n\n")
	var text strings.Builder
	text.WriteString(header + "\n\n")
	addShared(&text, header, map[string]bool{})
	text.WriteString(body)
	return NewScript(name, text.String())
}

// addShared adds the functions that a header names, each once and after those that
// it uses.
func addShared(text *strings.Builder, header string, added map[string]bool) {
	for line := range strings.Lines(header) {
		used, ok := strings.CutPrefix(line, "-- Uses   ")
		if !ok {
			continue
		}
		for _, name := range strings.Split(strings.TrimSpace(used), ", ") {
			if added[name] {
				continue
			}
			added[name] = true
			shared := source("shared/" + name)
			header, _, _ := strings.Cut(shared, "\n\n")
			addShared(text, header, added)
			text.WriteString(shared + "\n")
		}
	}
}

func source(name string) string {
	text, err := sources.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("redishold: " + err.Error()) // the file is part of the program
	}
	return string(text)
}
