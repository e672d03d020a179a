package redishold

import "embed"

//go:embed scripts/*.lua
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

func loadScript(name string) *Script {
	source, err := sources.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("redishold: " + err.Error()) // the file is part of the program
	}
	return NewScript(name, string(source))
}
