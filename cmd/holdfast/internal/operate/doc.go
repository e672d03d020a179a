// Package operate has what operators do with the locks of any program: list them, print their
// events, and end a hold by force.
package operate

import (
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Session is a command with an open store.
type Session struct {
	Console *admin.Console
	Env     output.Environment
	Report  *output.Reporter
	JSON    bool // print JSON
}
