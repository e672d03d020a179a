//go:build unix && !linux

package procgroup

// becomeRootVar is only used on Linux.
const becomeRootVar = "PROCGROUP_TEST_BECOME_ROOT"

func becomeRoot() int { return 1 }
