package output

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

func TestLease(t *testing.T) {
	hold := func(d time.Duration) admin.Hold { return admin.Hold{Holder: admin.Holder{Remaining: d}} }
	for _, test := range []struct {
		record time.Duration
		holds  []admin.Hold
		want   time.Duration
	}{
		{-1, nil, -1},
		{9, nil, 9},
		{-1, []admin.Hold{hold(5), hold(3)}, 3},
		{7, []admin.Hold{hold(-1), hold(3)}, 3},
		{7, []admin.Hold{hold(3), hold(-1)}, 3},
		{7, []admin.Hold{hold(-1)}, -1},
	} {
		if got := Lease(admin.Record{Remaining: test.record, Holds: test.holds}); got != test.want {
			t.Errorf("%+v: got %v, want %v", test, got, test.want)
		}
	}
}
