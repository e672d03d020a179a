package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"time"
)

// etcd is a server of one node, with its own settings.
type etcd struct {
	cmd *exec.Cmd
	url string
	log bytes.Buffer
}

func startEtcd(program, dir string) (*etcd, error) {
	client, err := freeURL()
	if err != nil {
		return nil, err
	}
	others, err := freeURL()
	if err != nil {
		return nil, err
	}
	e := &etcd{url: client}
	e.cmd = exec.Command(program, "--data-dir", dir, "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", others, "--initial-advertise-peer-urls", others,
		"--initial-cluster", "default="+others)
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	if err := e.await(); err != nil {
		e.close()
		return nil, fmt.Errorf("%w: %s", err, e.log.String())
	}
	return e, nil
}

// freeURL returns an address of the loopback that nobody uses now.
func freeURL() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return "http://" + l.Addr().String(), nil
}

// await returns when the server answers.
func (e *etcd) await() error {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var reply *http.Response
		if reply, err = client.Get(e.url + "/health"); err == nil {
			_ = reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("it answers %s", reply.Status)
		}
	}
	return fmt.Errorf("etcd is not ready after 20 s: %w", err)
}

// empty deletes the keys of the sample before: a session that was given up keeps
// them until its lease ends.
func (e *etcd) empty(ctx context.Context) error {
	const first, behind = "/bench/", "/bench0" // '0' follows '/'
	text, err := json.Marshal(map[string][]byte{"key": []byte(first), "range_end": []byte(behind)})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v3/kv/deleterange", bytes.NewReader(text))
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s to a deletion", reply.Status)
	}
	return nil
}

func (e *etcd) close() {
	http.DefaultClient.CloseIdleConnections()
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}
