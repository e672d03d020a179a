package etcdholdtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/must"
)

// ask calls etcd's lock service, v3lock, which is what jetcd and other clients without a
// lock of their own use. Each request has a connection of its own.
func ask(t *testing.T, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	url := server.Client(t).Endpoints()[0]
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, url+"/v3/lock/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", method, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// serviceLock locks a name under a lease, and returns the key that Unlock wants.
func serviceLock(t *testing.T, name string, lease clientv3.LeaseID) ([]byte, error) {
	var answer struct {
		Key []byte `json:"key"`
	}
	err := ask(t, "lock", map[string]any{"name": []byte(name), "lease": int64(lease)}, &answer)
	return answer.Key, err
}

// The lock service of etcd and a lock keep each other out, and each is woken by the
// other's end, also when the lease of a caller of the service expires.
func TestLockService(t *testing.T) {
	t.Parallel()
	l := locker(t)
	lease, err := server.Client(t).Grant(within(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	lock := must.Lock(t, l, name(t))
	type locked struct {
		key []byte
		err error
	}
	theirs := make(chan locked, 1)
	go func() {
		key, err := serviceLock(t, name(t), lease.ID)
		theirs <- locked{key, err}
	}()
	waitsIn(t, name(t), 2)
	select {
	case got := <-theirs:
		t.Fatalf("the service answered %q, %v while we hold", got.key, got.err)
	case <-time.After(100 * time.Millisecond):
	}
	must.Unlock(t, lock)
	got := <-theirs
	if got.err != nil {
		t.Fatal(got.err)
	}
	if _, err := l.TryLock(within(t), name(t)); !errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("TryLock while the service holds: got error %v, want ErrBusy", err)
	}
	ours := make(chan *holdfast.Lock, 1)
	go func() { ours <- must.Lock(t, l, name(t)) }()
	waitsIn(t, name(t), 2)
	if err := ask(t, "unlock", map[string]any{"key": got.key}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	must.Unlock(t, <-ours)

	lease, err = server.Client(t).Grant(within(t), 2) // nobody renews it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serviceLock(t, name(t), lease.ID); err != nil {
		t.Fatal(err)
	}
	must.Unlock(t, must.Lock(t, l, name(t)))
	empty(t, name(t))
}
