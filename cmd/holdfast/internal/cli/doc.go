// Package cli has the commands of the program and their flags. Each command has its own file,
// and its help has a text file in the folder help. The packages that the commands use do not
// import each other: package cli connects them.
package cli
