package cli

import (
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// ownArguments returns a copy of the arguments of the program. On a system that shows the
// arguments to every user of the machine, ownArguments overwrites the passwords in the URLs of
// the original arguments. Only the copy then has the passwords.
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
