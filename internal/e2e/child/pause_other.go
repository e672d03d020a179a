//go:build !unix

package child

import (
	"errors"
	"os"
)

// Pause is not possible here.
func Pause(*os.Process) error { return errors.ErrUnsupported }

// Resume is not possible here.
func Resume(*os.Process) error { return errors.ErrUnsupported }
