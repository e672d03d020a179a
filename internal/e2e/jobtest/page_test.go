package jobtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/job"
	"github.com/holdfast-go/holdfast/memhold"
)

// recipes are the schedulers of docs/recipes.md.
func recipes() map[string]func(context.Context, *job.Job) error {
	return map[string]func(context.Context, *job.Job) error{"cron": withCron, "gocron": withGocron, "loop": withLoop}
}

// The page has the functions of two files, all of them.
func TestRecipesAreThoseOfThePage(t *testing.T) {
	const page = "docs/recipes.md"
	files := []string{"internal/e2e/jobtest/recipes_test.go", "internal/hosts/recipes_test.go"}
	pages.Within(t, page, "go", files...)
	pages.Within(t, page, "java", "internal/e2e/interop/java/src/main/java/holdfast/peer/Recipe.java")
	functions, want := 0, 0
	for _, b := range pages.Of(t, page) {
		if b.Language != "go" {
			continue
		}
		functions += strings.Count("\n"+b.Text, "\nfunc ")
	}
	for _, name := range files {
		want += strings.Count(pages.File(t, name), "\nfunc ")
	}
	if functions != want {
		t.Errorf("the page has %d functions, the tests %d", functions, want)
	}
}

// Three processes that follow a recipe make one report for each tick.
func TestRecipes(t *testing.T) {
	for name, schedule := range recipes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ticks = 30
				ctx, cancel := context.WithTimeout(t.Context(), ticks*period+period/2+400*time.Millisecond)
				defer cancel()
				store, reports := memhold.New(), atomic.Int64{}
				for range behind() {
					j := reportJob(store, func(context.Context) error { reports.Add(1); return nil })
					go func() {
						if err := schedule(ctx, j); err != nil {
							t.Error(err)
						}
					}()
					time.Sleep(200 * time.Millisecond) // those with a ticker differ by that
				}
				<-ctx.Done()
				if got := reports.Load(); got != ticks {
					t.Errorf("%d reports in %d ticks", got, ticks)
				}
			})
		})
	}
}

// A recipe that ends waits for a run that has begun. gocron looks for its end without a
// pause, so that the clock of a bubble would stand still.
func TestRecipesWaitForTheRun(t *testing.T) {
	t.Parallel()
	for name, schedule := range recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var ended atomic.Bool
			err := schedule(ctx, reportJob(memhold.New(), func(context.Context) error {
				cancel()
				time.Sleep(50 * time.Millisecond)
				ended.Store(true)
				return nil
			}))
			if err != nil || !ended.Load() {
				t.Errorf("the run has ended: %v, %v", ended.Load(), err)
			}
		})
	}
}

// A store that refuses is in the log at each tick.
func TestRefusingStoreIsLogged(t *testing.T) {
	refusing := faulty.New()
	refusing.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
		return driver.Outcome{}, errors.Join(driver.ErrRefused, errors.New("NOPERM this user has no permissions"))
	}
	before := slog.Default()
	defer slog.SetDefault(before)
	for name, schedule := range recipes() {
		for text, store := range map[string]driver.Backend{"unsupported": lacking{memhold.New()}, "NOPERM": refusing} {
			t.Run(name+" "+text, func(t *testing.T) {
				var log bytes.Buffer
				slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
				synctest.Test(t, func(t *testing.T) {
					const ticks = 5
					ctx, cancel := context.WithTimeout(t.Context(), ticks*period+period/2)
					defer cancel()
					j := reportJob(store, func(context.Context) error { t.Error("ran"); return nil })
					if err := schedule(ctx, j); err != nil {
						t.Error(err)
					}
					if got := strings.Count(log.String(), text); got != ticks || strings.Count(log.String(), "level=ERROR") != ticks {
						t.Errorf("%d ticks and %d errors in the log:\n%s", ticks, got, &log)
					}
				})
			})
		}
	}
}

// lacking is a store that cannot keep a name.
type lacking struct{ driver.Backend }

func (s lacking) Info() driver.Info {
	info := s.Backend.Info()
	info.Caps.AtLeast = false
	return info
}
