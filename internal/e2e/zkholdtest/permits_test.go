package zkholdtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/lossytest"
)

// TestLostAnswersOfPermits has clients contend for two permits while a fifth of the answers
// is lost.
func TestLostAnswersOfPermits(t *testing.T) {
	loseAnswers(t, lossytest.Store{Permits: 2, Left: func(t *testing.T, name string) int {
		return len(nodes(t, name+"/locks")) + len(nodes(t, name+"/leases"))
	}})
}
