//go:build !linux

package filehold

import (
	"os"
	"runtime"
	"time"
)

// suitable returns an error: the locks of a folder were tested on Linux only.
func suitable(path string) error {
	return refused("%s: locks in a folder work on Linux, and not on %s; use another store", path, runtime.GOOS)
}

func tryFlock(*os.File) (bool, error) { return false, refused("no flock on %s", runtime.GOOS) }

func readClock() time.Duration { return 0 }

func bootID() string { return unknownBoot }

func cause(error) error { return nil }
