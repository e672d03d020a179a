package faqtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

func TestMain(m *testing.M) {
	anystore.Quiet()
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}

// produce returns an error as a user gets it.
type produce func(t *testing.T) string

// TestMessages produces each message that the page explains. The page explains what is
// produced here, and nothing else.
func TestMessages(t *testing.T) {
	known := map[string]produce{}
	for _, some := range []map[string]produce{memoryMessages(), redisMessages(), etcdMessages(), sqlMessages(), sourceMessages()} {
		maps.Copy(known, some)
	}
	explained := firstColumn(t, "## Errors")
	for _, message := range explained {
		producer, ok := known[message]
		if !ok {
			t.Errorf("docs/faq.md explains %q, which no test produces", message)
			continue
		}
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			if got := producer(t); !fits(message, got) {
				t.Errorf("got %q, want %q", got, message)
			}
		})
	}
	for message := range known {
		if !slices.Contains(explained, message) {
			t.Errorf("docs/faq.md does not explain %q", message)
		}
	}
}

// What a message of the page fits, and what it does not fit.
func TestFits(t *testing.T) {
	for text, want := range map[string]bool{
		`lock "job" is held by shop@web-1:7, lease ends in 4s`: true,
		`quorum: lock "job" is held by another client`:         true,
		`lock "job" is taken until 15:04:05 (kept by shop)`:    false,
		`lock "job" is held`: false,
	} {
		if got := fits(`lock "…" is held by …`, text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// fits reports whether text contains message, in which an ellipsis stands for any text.
func fits(message, text string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(message), "…", "(?s:.+)")
	return regexp.MustCompile(pattern).MatchString(text)
}

// The statuses that the page explains are those of the command.
func TestStatuses(t *testing.T) {
	source := pages.File(t, "cmd/holdfast/internal/output/exit.go")
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tExit\w+ += (\d+)`).FindAllStringSubmatch(source, -1) {
		if m[1] != "0" && m[1] != "1" {
			want = append(want, m[1])
		}
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(pages.File(t, "docs/faq.md"), -1) {
		got = append(got, m[1])
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("docs/faq.md explains the statuses %v, want %v", got, want)
	}
}

// firstColumn returns what is in backquotes in the first column of the tables below the
// headings that begin so.
func firstColumn(t *testing.T, heading string) (spans []string) {
	t.Helper()
	inside := false
	for line := range strings.Lines(pages.File(t, "docs/faq.md")) {
		if strings.HasPrefix(line, "## ") {
			inside = strings.HasPrefix(line, heading)
		}
		cells := strings.Split(line, " | ")
		if !inside || len(cells) != 2 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			spans = append(spans, m[1])
		}
	}
	if len(spans) < 40 {
		t.Fatalf("docs/faq.md has %d messages below %q", len(spans), heading)
	}
	return spans
}

// sourceMessages are those that need a pause of the machine, a collected Lock or a server
// that few have. They are compared with the string in the source that has them: this shows
// that the words are right, and not when the error comes.
func sourceMessages() map[string]produce {
	files := map[string]string{
		"the wall clock ran past the end of the lease":                 "lease.go",
		"a lock was dropped without Unlock":                            "lease.go",
		"the session in ZooKeeper has expired":                         "zkhold/errors.go",
		"not connected to ZooKeeper":                                   "zkhold/errors.go",
		"ZooKeeper does not let this client use the nodes of the lock": "zkhold/errors.go",
		"Options.Listen leads to a pooler":                             "pghold/listen.go",
		"restarted a short while ago":                                  "quorum/node.go",

		"refused the answer of …, and closed the connection: …":                "internal/bounded/refusal.go",
		"… answers there, not …":                                               "cmd/holdfast/internal/open/answers.go",
		"the server asked for the password in clear text, and does not get it": "cmd/holdfast/internal/open/mysql_conn.go",
		"the password goes to … without TLS if the server refuses TLS":         "cmd/holdfast/internal/open/exposed.go",
	}
	all := map[string]produce{}
	for message, file := range files {
		text := strings.ReplaceAll(message, "…", "%s")
		all[message] = func(t *testing.T) string { return stringWith(t, file, text) }
	}
	return all
}

// stringWith returns the string of a Go file that contains text, or "".
func stringWith(t *testing.T, file, text string) (found string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, pages.File(t, file), 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(s, text) {
				found = s
			}
		}
		return true
	})
	return found
}
