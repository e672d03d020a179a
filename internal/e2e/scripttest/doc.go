// Package scripttest has no code of its own, only tests: the Lua scripts and the store
// on a real server.
package scripttest
