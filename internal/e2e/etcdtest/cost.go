package etcdtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// Cost is what clients cost a server.
type Cost struct {
	Requests    int // messages so far, those of streams included
	Busy        int // calls that have no answer yet, and watches
	Connections int // where the system has /proc
}

// Cost returns what clients cost the server.
func (s *Server) Cost() (c Cost, err error) {
	text, err := s.metrics(context.Background())
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(text) {
		i := strings.LastIndexByte(line, ' ')
		n, _ := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
		switch name, labels, _ := strings.Cut(line[:i], "{"); {
		case name == "grpc_server_msg_received_total":
			c.Requests += int(n)
		case name == "etcd_debugging_mvcc_watcher_total":
			c.Busy += int(n)
		case !strings.Contains(labels, `grpc_type="unary"`):
		case name == "grpc_server_started_total":
			c.Busy += int(n)
		case name == "grpc_server_handled_total":
			c.Busy -= int(n)
		}
	}
	c.Connections, err = s.connections()
	return c, err
}

// metrics returns what the server says of itself, over a connection that is closed then.
func (s *Server) metrics(ctx context.Context) (string, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, s.client+"/metrics", nil)
	if err != nil {
		return "", err
	}
	ask.Close = true // else it would count as one of the clients'
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// connections counts those to the server that it has not closed.
func (s *Server) connections() (n int, err error) {
	port, err := strconv.Atoi(s.client[strings.LastIndexByte(s.client, ':')+1:])
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, nil //nolint:nilerr // it is not Linux
	}
	local := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(text)) {
		// number, local address, remote address, state: 01 is established, 08 is left by the client
		if f := strings.Fields(line); len(f) > 3 && f[1] == local && (f[3] == "01" || f[3] == "08") {
			n++
		}
	}
	return n, nil
}
