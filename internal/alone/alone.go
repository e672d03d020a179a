// Package alone refuses locks that several callers hold at the same time, for packages whose
// callers rely on one holder.
package alone

import (
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Check returns an error if m is the read side of a RWMutex.
func Check(m *holdfast.Mutex) error {
	if m.Mode() == driver.Shared {
		return errors.New("the read side of a RWMutex has several holders at the same time: use a Mutex")
	}
	return nil
}
