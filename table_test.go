package holdfast_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

// The README's table of kinds and stores is what the stores declare.
func TestReadmeTable(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := table(t); !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not have the table of what the stores declare:\n%s", want)
	}
}

func table(t *testing.T) string {
	t.Helper()
	redlock, err := quorum.Of(memhold.New(), memhold.New(), memhold.New())
	if err != nil {
		t.Fatal(err)
	}
	stores := []struct {
		name    string
		backend driver.Backend
	}{
		{"Redis, as Redisson", redishold.New(nil, nil)},
		{"Redis, `Plain`", redishold.New(nil, &redishold.Options{Protocol: redishold.Plain})},
		{"Redis, `Timestamp`", redishold.New(nil, &redishold.Options{Protocol: redishold.Timestamp})},
		{"`quorum` (Redlock)", redlock},
		{"memory", memhold.New()},
	}
	rows := []struct {
		name string
		has  func(b driver.Backend) bool
	}{
		{"`Mutex`: one holder; reentrant under `WithOwner`; `LockAll`", func(driver.Backend) bool { return true }},
		{"`FairMutex`: first come, first served over all processes", func(b driver.Backend) bool { return b.Info().Caps.Fair }},
		{"`RWMutex`: many readers or one writer", func(b driver.Backend) bool { return b.Info().Caps.Shared }},
		{"`Semaphore`: n leased permits", func(b driver.Backend) bool { return b.Info().Caps.Permits }},
		{"`CountDownLatch`", func(b driver.Backend) bool { return b.Info().Caps.Latches }},
		{"fencing tokens", func(b driver.Backend) bool { return b.Info().Caps.Fencing }},
	}
	var out strings.Builder
	out.WriteString("| |")
	for _, s := range stores {
		fmt.Fprintf(&out, " %s |", s.name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(stores)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s |", r.name)
		for _, s := range stores {
			mark := "–"
			if r.has(s.backend) {
				mark = "yes"
			}
			fmt.Fprintf(&out, " %s |", mark)
		}
		out.WriteString("\n")
	}
	return out.String()
}
