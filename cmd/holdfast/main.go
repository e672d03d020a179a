// Command holdfast runs commands under a distributed lock.
package main

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

func main() { os.Exit(cli.Main()) }
