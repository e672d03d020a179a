package pgtest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
)

func TestMain(m *testing.M) {
	manytest.Serve(openLoad)
	goleak.VerifyTestMain(shared.Tests(m))
}
