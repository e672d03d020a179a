//go:build !linux

package delay

import (
	"errors"
	"fmt"
	"time"
)

// Proxy does not exist here.
type Proxy struct{}

type end struct{}

// Listen returns errors.ErrUnsupported.
func Listen(string, string, time.Duration) (*Proxy, error) {
	return nil, fmt.Errorf("delay TCP on a system that is not Linux: %w", errors.ErrUnsupported)
}

// Close does nothing.
func (*Proxy) Close() {}

// Run does nothing.
func (*Proxy) Run() error { return nil }
