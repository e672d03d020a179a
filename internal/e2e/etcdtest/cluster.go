package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// StartCluster runs n members of one cluster for t, and stops them when t ends. The first
// of them leads.
func StartCluster(t testing.TB, n int) []*Server {
	t.Helper()
	program, err := find("etcd")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ports := make([][2]int, n)
	for i := range n {
		if ports[i], err = freePorts(); err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("member%d=%s", i, url(ports[i][1])))
	}
	members, errs := make([]*Server, n), make(chan error, n)
	for i := range members {
		members[i] = newServer(program, t.TempDir(), fmt.Sprintf("member%d", i), ports[i], strings.Join(names, ","))
		t.Cleanup(members[i].Kill)
		go func() { errs <- members[i].Restart() }() // it answers when most of them are there
	}
	for range members {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		if i := slices.IndexFunc(members, (*Server).Leads); i >= 0 {
			members[0], members[i] = members[i], members[0]
			return members
		}
		if time.Now().After(end) {
			t.Fatal("there is no leader")
		}
	}
}

// Leads reports whether the server says that it leads its cluster.
func (s *Server) Leads() bool {
	client, err := s.Dial()
	if err != nil {
		return false
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	is, err := client.Status(ctx, s.client)
	return err == nil && is.Leader == is.Header.MemberId
}

// LeasesEnded returns how many leases the server has had ended, because their time was
// over by its own count.
func (s *Server) LeasesEnded(ctx context.Context) (int, error) {
	text, err := s.metrics(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "etcd_debugging_server_lease_expired_total "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, errors.New("etcd does not say how many leases have ended")
}

// ClusterClient returns a client that knows all of these members, and is closed when t
// ends. change may change its settings.
func ClusterClient(t testing.TB, members []*Server, change ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	config := members[0].config()
	config.Endpoints = nil
	for _, m := range members {
		config.Endpoints = append(config.Endpoints, m.client)
	}
	for _, fn := range change {
		fn(&config)
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
