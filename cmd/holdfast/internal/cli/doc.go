// Package cli has the commands of the program, with their flags and their help: a file for
// each. It connects the rooms below, which do not know each other.
package cli
