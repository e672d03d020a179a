package zktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// LastNumber is the last sequence number that a claim of Holdfast may have: a million
// before the server stops counting.
const LastNumber = math.MaxInt32 - 1_000_000 - 1

// StartCounted runs a server for t, as Start does, with the nodes of counters: how many
// children each has had. That is the sequence number of the next one. It does so with a
// snapshot: a server takes weeks to count so far. The nodes above them have to be in
// counters, too.
func StartCounted(t testing.TB, counters map[string]int32) *Server {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data", "version-2")
	if err := errors.Join(os.MkdirAll(data, 0o700), os.WriteFile(filepath.Join(data, "snapshot.1"), snapshot(counters), 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := Run(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// snapshot returns a snapshot of ZooKeeper, as its FileSnap reads it.
func snapshot(counters map[string]int32) []byte {
	var b bytes.Buffer
	write := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.BigEndian, v)
		}
	}
	text := func(s string) {
		write(int32(len(s)))
		b.WriteString(s)
	}
	b.WriteString("ZKSN")
	write(int32(2), int64(-1)) // version, database
	write(int32(0), int32(0))  // sessions, lists of permissions
	all := map[string]int32{"": 1, "/zookeeper": 1, "/zookeeper/config": 0, "/zookeeper/quota": 0}
	maps.Copy(all, counters)
	for _, path := range slices.Sorted(maps.Keys(all)) { // a node after the one above it
		text(path)
		write(int32(-1), int64(-1))                   // no data; everybody may do all
		write(int64(1), int64(1), int64(1), int64(1)) // czxid, mzxid, ctime, mtime
		write(int32(0), all[path], int32(0))          // version, cversion, aversion
		write(int64(0), int64(1))                     // "ephemeralOwner", pzxid
	}
	text("/")
	write(int64(adler32.Checksum(b.Bytes())))
	text("/")
	return b.Bytes()
}

// RefuseCrowd has many ask for a name whose counter is beyond LastNumber: none gets it.
func RefuseCrowd(t testing.TB, name string, lockers ...*holdfast.Locker) {
	t.Helper()
	var all sync.WaitGroup
	for _, l := range lockers {
		for range 20 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				_, err := l.FairMutex(name).Lock(ctx)
				if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "delete the node /"+name+" ") {
					t.Errorf("one of many: got error %v, want ErrRefused with what to do", err)
				}
			})
		}
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
