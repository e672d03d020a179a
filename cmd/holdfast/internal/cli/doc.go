// Package cli has the commands of the program, with their flags and their help. Each command
// has its own file. The packages that the commands use do not import each other: package cli
// connects them.
package cli
