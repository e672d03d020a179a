package fence_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// FuzzAccepted shows that no other reply is taken for that of a value that was set.
func FuzzAccepted(f *testing.F) {
	f.Add(int64(1), "7", uint8(2), uint8(0))
	f.Add(int64(0), "8", uint8(2), uint8(0))
	f.Add(int64(1), "7", uint8(3), uint8(0))
	f.Add(int64(-1), "", uint8(0), uint8(1))
	f.Add(int64(1), "\xff", uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, code int64, token string, size, shape uint8) {
		var first any = code
		if shape%3 == 1 {
			first = token
		}
		list := []any{first, token, nil, []any{first}}[:size%5]
		var reply any = list
		if shape%3 == 2 {
			reply = first
		}
		err := fence.Accepted(reply)
		pair := shape%3 == 0 && len(list) == 2
		if got, want := err == nil, pair && code == 1; got != want {
			t.Errorf("%#v: accepted %v, want %v: %v", reply, got, want, err)
		}
		if got, want := errors.Is(err, fence.ErrStale), pair && code == 0; got != want {
			t.Errorf("%#v: stale %v, want %v: %v", reply, got, want, err)
		}
	})
}

// FuzzGuard shows that no write with a smaller token follows one with a larger,
// whatever the names.
func FuzzGuard(f *testing.F) {
	f.Add("a", "b", uint64(5), uint64(4), uint64(7))
	f.Add("a", "a", uint64(5), uint64(4), uint64(5))
	f.Add("", "\x00", uint64(0), uint64(1)<<63, uint64(1)<<63-1)
	f.Fuzz(func(t *testing.T, name, other string, x, y, z uint64) {
		var g fence.Guard
		largest := map[string]uint64{}
		for _, step := range []struct {
			name  string
			token uint64
		}{{name, x}, {other, y}, {name, z}, {other, x}, {name, y}} {
			wrote := false
			err := g.Do(step.name, step.token, func() error { wrote = true; return nil })
			valid := step.token > 0 && step.token < 1<<63
			want := valid && step.token >= largest[step.name]
			if wrote != want || (err == nil) != want || errors.Is(err, fence.ErrStale) != (valid && !want) {
				t.Errorf("%q with token %d after %d: wrote %v, error %v", step.name, step.token, largest[step.name], wrote, err)
			}
			if want {
				largest[step.name] = step.token
			}
		}
	})
}
