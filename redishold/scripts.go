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
	breakHold, inspect, explain      *Script
	register, client                 *Script
	probe, replicas                  *Script
}

func loadScripts() scripts {
	return scripts{
		acquire:   loadScript("acquire"),
		renew:     loadScript("renew"),
		release:   loadScript("release"),
		abandon:   loadScript("abandon"),
		breakHold: loadScript("break"),
		inspect:   loadScript("inspect"),
		explain:   loadScript("explain"),
		register:  loadScript("register"),
		client:    loadScript("client"),
		probe:     loadScript("probe"),
		replicas:  loadScript("replicas"),
	}
}

// loadScript returns a script. The functions that its header says it uses, each a
// file in scripts/shared, stand between the header and the rest.
func loadScript(name string) *Script {
	header, body, _ := strings.Cut(source(name), "\n\n")
	var text strings.Builder
	text.WriteString(header + "\n\n")
	for line := range strings.Lines(header) {
		if used, ok := strings.CutPrefix(line, "-- Uses   "); ok {
			for _, shared := range strings.Split(strings.TrimSpace(used), ", ") {
				text.WriteString(source("shared/"+shared) + "\n")
			}
		}
	}
	text.WriteString(body)
	return NewScript(name, text.String())
}

func source(name string) string {
	text, err := sources.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("redishold: " + err.Error()) // the file is part of the program
	}
	return string(text)
}
