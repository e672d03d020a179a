package javaconf

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, dial.Sleepers()...) }
