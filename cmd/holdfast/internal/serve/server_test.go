package serve

import (
	"testing"

	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// The severities of the dashboard have the order of those of package doctor, so that one is
// converted to the other.
func TestSeverities(t *testing.T) {
	for from, want := range map[doctor.Severity]dash.Severity{
		doctor.OK: dash.Good, doctor.Unknown: dash.Unknown, doctor.Note: dash.Note, doctor.Warning: dash.Warning, doctor.Danger: dash.Danger,
	} {
		if got := dash.Severity(from); got != want {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
	}
}
