package cli

import (
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// ownArguments returns a copy of the arguments of the program. Linux shows the arguments of a
// process to every user of the machine. On Linux, ownArguments therefore overwrites the
// passwords in the original arguments, so that only the copy has them.
func ownArguments() []string {
	args := make([]string, 0, len(os.Args))
	for _, arg := range os.Args[min(1, len(os.Args)):] {
		args = append(args, strings.Clone(arg))
		for _, span := range redisurl.Secrets(arg) {
			blot(arg[span.From:span.To])
		}
	}
	return args
}
