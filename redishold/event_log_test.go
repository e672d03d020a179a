package redishold

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// How long the two streams become, and which entries stand in both.
func TestLogLength(t *testing.T) {
	for _, tt := range []struct {
		length int
		want   []string
	}{
		{0, []string{"10000", "1000", "604800000"}},
		{50, []string{"50", "5", "604800000"}},
		{1, []string{"1", "1", "604800000"}},
	} {
		conn := &fakeConn{}
		entries := []admin.Entry{
			{Type: admin.EntryAcquired, At: time.Now()},
			{Type: admin.EntryLost, At: time.Now()},
			{Type: admin.EntryForced, At: time.Now()},
			{Type: admin.EntryMissed, At: time.Now()},
		}
		_ = New(conn, &Options{KeyPrefix: "app:", LogLength: tt.length}).AppendLog(t.Context(), admin.Client{ID: testUUID}, entries) // the fake has no answer
		call := conn.sent[len(conn.sent)-1][0]
		if want := []string{"app:holdfast:{events}", "app:holdfast:{events}:rare"}; !slices.Equal(call.Keys, want) {
			t.Errorf("got keys %q, want %q", call.Keys, want)
		}
		if got := call.Args[:3]; !slices.Equal(got, tt.want) {
			t.Errorf("length %d: got %q, want %q", tt.length, got, tt.want)
		}
		marks := ""
		for _, what := range call.Args[4:] {
			marks += what[:1]
		}
		if marks != ".!!." {
			t.Errorf("got marks %q, want .!!.", marks)
		}
	}
	b := New(&fakeConn{}, &Options{LogLength: -1})
	if err := b.AppendLog(t.Context(), admin.Client{}, nil); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a negative length: got %v, want ErrRefused", err)
	}
}
