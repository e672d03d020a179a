package dashtest

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

// page returns the HTML of a page.
func (s *site) page(path string) string {
	s.Helper()
	r, err := http.Get(s.url(path))
	if err != nil {
		s.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// Thousands of locks appear at once in a store that was empty. The pages say how many of them
// are not read yet. Meanwhile a lock that somebody takes by hand is on the open page of its
// search within the time that the pages state.
func TestNewNamesAmongThousands(t *testing.T) {
	s := start(t, nil)
	stream, err := http.Get(s.url("events?view=&q=foreign"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	shows := func(text string) bool {
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return true
			}
		}
		return false
	}
	if !shows("No lock matches the search") {
		t.Fatal("the stream ended before it showed the empty store")
	}
	s.redis.Do("EVAL", fill, "0", java, "10000")
	var stated []string
	await.Until(t, 10*time.Second, "the page says what is not read", func() bool {
		stated = regexp.MustCompile(`of about 100\d\d keys read, the rest within [0-9ms ]+; new names appear within ([0-9ms ]+)`).FindStringSubmatch(s.page(""))
		return stated != nil
	})
	limit, err := time.ParseDuration(strings.ReplaceAll(stated[1], " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	s.promised("a new name was on the page of its search", limit, func() time.Duration {
		watch := await.NewWatch(t)
		s.javaLock("foreign:7", java+":42", time.Hour)
		if !shows("foreign:7") {
			t.Fatal("the stream ended")
		}
		return watch.Took()
	})
	if text := s.page(""); !strings.Contains(text, "keys read") {
		t.Errorf("all names are read, so the page proves nothing: %s", text)
	}
	if text := s.page("?q=foreign"); !strings.Contains(text, "1 of ") || !strings.Contains(text, "foreign:7") {
		t.Errorf("the new name is not on the page of its search: %s", text)
	}
}
