package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// etcd is a cluster of one node.
type etcd struct {
	child.Program
	url string
}

func startEtcd(settings Settings, dir string) (Server, error) {
	if settings.Etcd == "" {
		return nil, errors.New("there is no etcd; .ci/etcd builds one")
	}
	client, err := address()
	if err != nil {
		return nil, err
	}
	others, err := address()
	if err != nil {
		return nil, err
	}
	e := &etcd{url: "http://" + client}
	others = "http://" + others
	cmd := exec.Command(settings.Etcd, "--data-dir", filepath.Join(dir, "data"), "--log-level", "error",
		"--listen-client-urls", e.url, "--advertise-client-urls", e.url,
		"--listen-peer-urls", others, "--initial-advertise-peer-urls", others,
		"--initial-cluster", "default="+others, "--unsafe-no-fsync="+strconv.FormatBool(settings.SkipDisk))
	return e, e.Serve(cmd, filepath.Join(dir, "log"), until(func(ctx context.Context) error {
		_, err := e.ask(ctx, http.MethodGet, "/health", nil)
		return err
	}))
}

// address returns an address of the loopback that nobody uses now.
func address() (string, error) {
	port, err := redistest.FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// ask sends a request of HTTP and returns the answer.
func (e *etcd) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("etcd answers %s to %s", reply.Status, path)
	}
	return io.ReadAll(reply.Body)
}

func (e *etcd) Reach(t *peer.Target) { t.Etcd = e.url }

// Empty deletes all keys: a session that was given up keeps its own until its lease ends.
func (e *etcd) Empty(ctx context.Context) error {
	body, err := json.Marshal(map[string][]byte{"key": {0}, "range_end": {0}}) // from the first to the last
	if err != nil {
		return err
	}
	_, err = e.ask(ctx, http.MethodPost, "/v3/kv/deleterange", body)
	return err
}

// Done counts messages of clients, also those on streams: of watches and of leases that
// are kept alive.
func (e *etcd) Done(ctx context.Context) (Work, error) {
	w := Work{CPU: worked(e.PID())}
	text, err := e.ask(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return w, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "grpc_server_msg_received_total{") {
			continue
		}
		_, value, _ := strings.Cut(line, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return w, fmt.Errorf("etcd says %q: %w", line, err)
		}
		w.Requests += int64(n)
	}
	return w, nil
}

func (e *etcd) Close() {
	http.DefaultClient.CloseIdleConnections()
	e.Kill()
}
