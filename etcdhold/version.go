package etcdhold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-go/holdfast/driver"
)

// versionWait is how long checkVersions waits for the other servers after the first answer.
const versionWait = 100 * time.Millisecond

// checkVersions asks all servers for their versions. It returns an error if a server is too
// old, or if no server answers.
func (s *store) checkVersions(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	servers := s.client.Endpoints()
	answers := make(chan error, len(servers))
	var wg sync.WaitGroup
	defer wg.Wait() // cancel ends the other calls
	defer cancel()
	for _, server := range servers {
		wg.Go(func() { answers <- s.checkVersion(ctx, server) })
	}
	var failed error
	var late <-chan time.Time // receives versionWait after the first answer; nil until there is an answer
	for range servers {
		select {
		case err := <-answers:
			switch {
			case errors.Is(err, driver.ErrRefused):
				return err
			case err != nil:
				failed = errors.Join(failed, err)
			case late == nil:
				late = time.After(versionWait)
			}
		case <-late:
			return nil
		}
	}
	switch {
	case late != nil:
		return nil
	case errors.Is(failed, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("ask etcd for its version, which etcd 3.6 allows to users other than root only since 3.6.12: %w", failed)
	}
	return fmt.Errorf("ask etcd for its version: %w", failed)
}

// checkVersion returns an error that is driver.ErrRefused if the server is too old.
func (s *store) checkVersion(ctx context.Context, server string) error {
	r, err := s.client.Status(ctx, server)
	if err == nil && !newEnough(r.Version) {
		err = refused("server "+server, driver.ErrRefused, fmt.Errorf("etcd %s is too old for locks: it may answer that it has extended a lease, although the lease has ended; use 3.5.23, 3.6.5 or newer", r.Version))
	}
	return err
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
