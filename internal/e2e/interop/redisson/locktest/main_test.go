package locktest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

func TestMain(m *testing.M) { redisson.Main(m, 4) }
