// Package cli has the commands of the program and their flags. Each command has its own file,
// and its help has a text file in the folder help. The packages store, supervise, operate,
// serve and demo do not import each other: package cli connects them.
package cli
