// Package resources shows that Holdfast leaves nothing behind: after very many
// locks, and with very many waiters, on real servers. It has tests only.
package resources
