//go:build linux

package filehold

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/versioned"
)

// OpenWithClock does what Open does, with another clock of the machine.
func OpenWithClock(path string, clock func() time.Duration, boot string) (*Backend, error) {
	d, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	d.clock, d.boot = clock, boot
	return &Backend{engine: versioned.New(d, versioned.Limits{Name: "file"})}, nil
}
