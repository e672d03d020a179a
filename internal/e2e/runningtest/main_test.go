package runningtest

import (
	"testing"

	"go.uber.org/goleak"
)

// root is the folder of the repository.
const root = "../../../"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
