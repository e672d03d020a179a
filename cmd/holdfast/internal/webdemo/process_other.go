//go:build !unix

package webdemo

import (
	"errors"
	"os"
	"syscall"
)

// canPause says whether this system can stop a process and let it continue.
const canPause = false

func ownGroup() *syscall.SysProcAttr { return nil }

func pause(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
