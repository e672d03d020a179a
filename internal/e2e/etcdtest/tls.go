package etcdtest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// StartTLS runs a server for t as Start does, which listens for clients with TLS on a
// second address. ca is the file with the certificate of the authority that they trust.
func StartTLS(t testing.TB) (s *Server, addr, ca string) {
	t.Helper()
	program, err := find("etcd")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := redistest.Certificates(dir); err != nil {
		t.Fatal(err)
	}
	s, err = child.UntilPortsAreFree(func() (*Server, error) {
		ports, failed := freePorts()
		port, err := redistest.FreePort()
		if err = errors.Join(failed, err); err != nil {
			return nil, err
		}
		s := newServer(program, dir, "one", ports, "one="+url(ports[1]))
		addr = strings.TrimPrefix(url(port), "http://")
		for i, arg := range s.args {
			if strings.HasPrefix(arg, "--listen-client-urls=") {
				s.args[i] += ",https://" + addr
			}
		}
		s.args = append(s.args, "--cert-file="+filepath.Join(dir, "cert.pem"), "--key-file="+filepath.Join(dir, "key.pem"))
		return s, s.Restart()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s, addr, filepath.Join(dir, "ca-cert.pem")
}
