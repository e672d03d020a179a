package redishold

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// How long the two streams become, and which happenings stand in both.
func TestHistoryLength(t *testing.T) {
	for _, tt := range []struct {
		length int
		want   []string
	}{
		{0, []string{"10000", "1000", "604800000"}},
		{50, []string{"50", "5", "604800000"}},
		{1, []string{"1", "1", "604800000"}},
	} {
		conn := &fakeConn{}
		c := driver.Chapter{Client: testUUID, Happenings: []driver.Happening{
			{Step: driver.StepAcquired, At: time.Now()},
			{Step: driver.StepLost, At: time.Now()},
			{Step: driver.StepForced, At: time.Now()},
			{Step: driver.StepMissed, At: time.Now()},
		}}
		_ = New(conn, &Options{Prefix: "app:", HistoryLength: tt.length}).Record(t.Context(), c) // the fake has no answer
		call := conn.sent[len(conn.sent)-1][0]
		if want := []string{"app:holdfast:{history}", "app:holdfast:{history}:rare"}; !slices.Equal(call.Keys, want) {
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
	b := New(&fakeConn{}, &Options{HistoryLength: -1})
	if err := b.Record(t.Context(), driver.Chapter{}); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a negative length: got %v, want ErrRefused", err)
	}
}
