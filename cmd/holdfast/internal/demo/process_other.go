//go:build !unix

package demo

import (
	"errors"
	"syscall"
)

// canPause is whether this system can stop a process and let it continue.
const canPause = false

func ownGroup() *syscall.SysProcAttr { return nil }

func (p *process) pause() error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }
