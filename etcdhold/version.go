package etcdhold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// versionWait is how long checkVersions waits for the other servers after the first answer.
const versionWait = 100 * time.Millisecond

// checkVersions asks all servers for their versions, and returns an error if one is too
// old, or if none answers.
func (s *store) checkVersions(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		server, version string
		err             error
	}
	servers := s.client.Endpoints()
	answers := make(chan answer, len(servers))
	var wg sync.WaitGroup
	defer wg.Wait() // cancel ends the other calls
	defer cancel()
	for _, server := range servers {
		wg.Go(func() {
			r, err := s.client.Status(ctx, server)
			a := answer{server: server, err: err}
			if err == nil {
				a.version = r.Version
			}
			answers <- a
		})
	}
	var failed error
	var late <-chan time.Time
	known := 0
	for range servers {
		select {
		case a := <-answers:
			switch {
			case a.err != nil:
				failed = errors.Join(failed, a.err)
			case !newEnough(a.version):
				return refused("server "+a.server, fmt.Errorf("etcd %s is too old for locks: it may say of a lease that has ended that it was extended; 3.5.23, 3.6.5 or newer is needed", a.version))
			default:
				if known++; known == 1 {
					late = time.After(versionWait)
				}
			}
		case <-late:
			return nil
		}
	}
	switch {
	case known > 0:
		return nil
	case errors.Is(failed, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("ask etcd for its version, which 3.6 lets users other than root do from 3.6.12 on: %w", failed)
	}
	return fmt.Errorf("ask etcd for its version: %w", failed)
}

// newEnough reports whether a server of this version answers correctly about leases that
// have ended.
func newEnough(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	least := semver.Version{Major: 3, Minor: 5, Patch: 23}
	if v.Major == 3 && v.Minor == 6 {
		least = semver.Version{Major: 3, Minor: 6, Patch: 5}
	}
	return !v.LessThan(least)
}
