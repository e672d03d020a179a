package fence_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/fence"
)

func TestGuard(t *testing.T) {
	var g fence.Guard
	failure := errors.New("disk full")
	var written []string
	for i, step := range []struct {
		name  string
		token uint64
		err   error // of the write
		want  error
	}{
		{"a", 5, nil, nil},
		{"a", 5, nil, nil}, // the same holder writes again
		{"a", 4, nil, fence.ErrStale},
		{"b", 4, nil, nil}, // another name
		{"a", 7, failure, failure},
		{"a", 6, nil, fence.ErrStale}, // a write that failed may have done something
		{"a", 7, nil, nil},
		{"A", 1, nil, nil},
	} {
		ran := false
		err := g.Do(step.name, step.token, func() error {
			ran = true
			written = append(written, step.name)
			return step.err
		})
		if !errors.Is(err, step.want) || (step.want == nil) != (err == nil) {
			t.Errorf("step %d: got %v, want %v", i, err, step.want)
		}
		if refused := errors.Is(err, fence.ErrStale); ran == refused {
			t.Errorf("step %d: write ran: %v, with error %v", i, ran, err)
		}
	}
	if got, want := fmt.Sprint(written), "[a a b a a A]"; got != want {
		t.Errorf("got writes %s, want %s", got, want)
	}
	for _, none := range []uint64{0, 1 << 63} {
		err := g.Do("d", none, func() error {
			t.Errorf("written with %d, which is no token", none)
			return nil
		})
		if err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("token %d: got %v, want an error that is not ErrStale", none, err)
		}
	}
	g.Forget("a")
	if err := g.Do("a", 1, func() error { return nil }); err != nil {
		t.Errorf("after Forget: got %v, want nil", err)
	}
}

func TestGuardLetsNoWriteBeOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		var last uint64 // written by the writes alone: the race detector sees two at a time
		var wg sync.WaitGroup
		for _, i := range rand.Perm(100) {
			token := uint64(i + 1)
			wg.Go(func() {
				err := g.Do("a", token, func() error {
					if token < last {
						t.Errorf("%d written after %d", token, last)
					}
					last = token
					return nil
				})
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if last != 100 {
			t.Errorf("got %d at the end, want 100", last)
		}
	})
}

func TestUnknownDialect(t *testing.T) {
	if err := fence.SQL(0).Check(t.Context(), nil, "a", 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
	for _, dialect := range []fence.SQL{fence.PostgreSQL, fence.MySQL} {
		if err := dialect.Check(t.Context(), nil, "a", 0); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("dialect %d, token 0: got %v, want an error that is not ErrStale", dialect, err)
		}
	}
}

func TestAccepted(t *testing.T) {
	for _, reply := range []any{nil, "1", []any{}, []any{"1", "7"}, []any{int64(2), "7"}} {
		if err := fence.Accepted(reply); err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%v: got %v, want an error about the reply", reply, err)
		}
	}
	if err := fence.Accepted([]any{int64(1), "7"}); err != nil {
		t.Errorf("accepted: got %v", err)
	}
	if err := fence.Accepted([]any{int64(0), "7"}); !errors.Is(err, fence.ErrStale) {
		t.Errorf("refused: got %v, want ErrStale", err)
	}
}

// A process that owns a file refuses the write of a holder that was paused.
func ExampleGuard() {
	var guard fence.Guard
	write := func(token uint64, text string) {
		err := guard.Do("report", token, func() error {
			fmt.Println("written:", text)
			return nil
		})
		fmt.Println("stale:", errors.Is(err, fence.ErrStale))
	}
	write(34, "by the second holder")
	write(33, "by the first one, which was paused")

	// Output:
	// written: by the second holder
	// stale: false
	// stale: true
}
