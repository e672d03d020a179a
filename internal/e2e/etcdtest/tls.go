package etcdtest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

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
	for range 20 {
		dir := t.TempDir()
		ports, failed := freePorts()
		port, err := redistest.FreePort()
		if err = errors.Join(failed, err, redistest.Certificates(dir)); err != nil {
			t.Fatal(err)
		}
		s, addr = newServer(program, dir, "one", ports, "one="+url(ports[1])), strings.TrimPrefix(url(port), "http://")
		for i, arg := range s.args {
			if strings.HasPrefix(arg, "--listen-client-urls=") {
				s.args[i] += ",https://" + addr
			}
		}
		s.args = append(s.args, "--cert-file="+filepath.Join(dir, "cert.pem"), "--key-file="+filepath.Join(dir, "key.pem"))
		if err = s.Restart(); err == nil {
			t.Cleanup(s.Kill)
			return s, addr, filepath.Join(dir, "ca-cert.pem")
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatal(err)
		}
	}
	t.Fatal(errPortTaken)
	return nil, "", ""
}
