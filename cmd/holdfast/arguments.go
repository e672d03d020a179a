package main

import (
	"os"
	"strings"
)

// ownArguments returns the arguments of the program. Where the system shows them
// to every user of the machine, passwords in URLs are blotted out there: only the
// copy that is returned has them.
func ownArguments() []string {
	args := make([]string, 0, len(os.Args))
	for _, arg := range os.Args[min(1, len(os.Args)):] {
		args = append(args, strings.Clone(arg))
		for _, span := range secretsIn(arg) {
			blot(arg[span.from:span.to])
		}
	}
	return args
}

// span is a part of a text.
type span struct{ from, to int }

// secretsIn returns where an argument that is or has a URL keeps passwords.
func secretsIn(arg string) []span {
	scheme := strings.Index(arg, "://")
	if scheme < 0 {
		return nil
	}
	var spans []span
	begin := scheme + len("://")
	end := len(arg)
	if i := strings.IndexAny(arg[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	// A slash that somebody forgot to encode is part of the password.
	if at := strings.LastIndexByte(arg, '@'); at > end {
		end = at + 1
	}
	if at := strings.LastIndexByte(arg[begin:end], '@'); at >= 0 {
		if colon := strings.IndexByte(arg[begin:begin+at], ':'); colon >= 0 {
			spans = append(spans, span{begin + colon + 1, begin + at})
		}
	}
	const parameter = "password="
	for from := end; ; {
		i := strings.Index(arg[from:], parameter)
		if i < 0 {
			return spans
		}
		from += i + len(parameter)
		to := len(arg)
		if j := strings.IndexByte(arg[from:], '&'); j >= 0 {
			to = from + j
		}
		spans = append(spans, span{from, to})
	}
}
