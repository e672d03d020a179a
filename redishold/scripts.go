package redishold

import (
	"embed"
	"strings"
)

//go:embed scripts/*.lua scripts/shared/*.lua
var sources embed.FS

// scripts are the engine's Lua scripts; each file says what it takes and
// answers.
type scripts struct {
	acquire, renew, release, abandon *Script
	breakHold, explain               *Script
	register, client                 *Script
	probe, replicas                  *Script

	acquireAll, renewAll, releaseAll *Script // of several locks
}

func loadScripts() scripts {
	return scripts{
		acquire:   loadScript("acquire"),
		renew:     loadScript("renew"),
		release:   loadScript("release"),
		abandon:   loadScript("abandon"),
		breakHold: loadScript("break"),
		explain:   loadScript("explain"),
		register:  loadScript("register"),
		client:    loadScript("client"),
		probe:     loadScript("probe"),
		replicas:  loadScript("replicas"),

		acquireAll: loadScript("acquire_all"),
		renewAll:   loadScript("renew_all"),
		releaseAll: loadScript("release_all"),
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
