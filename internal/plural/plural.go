// Package plural writes numbers with their nouns.
package plural

import (
	"fmt"
	"strings"
)

// Count returns the number n and a noun, as in "2 locks". The parameter `one` is the noun in the
// singular. Unless n is 1, it gets an "s", or "es" if it ends with one.
func Count[N int | int64](n N, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "s"):
		return fmt.Sprintf("%d %ses", n, one)
	}
	return fmt.Sprintf("%d %ss", n, one)
}
