package zktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// StartTLS runs a server for t as Start does, which listens for clients with TLS on a
// second address. ca is the file with the certificate of the authority that they trust.
func StartTLS(t testing.TB) (s *Server, addr, ca string) {
	t.Helper()
	jars := os.Getenv(JarsEnv)
	if jars == "" {
		t.Fatal(errNoJars)
	}
	dir := t.TempDir()
	if err := errors.Join(redistest.Certificates(dir), bundle(dir)); err != nil {
		t.Fatal(err)
	}
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = redistest.FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	s = &Server{jars: jars, dir: dir, port: ports[0]}
	t.Cleanup(s.Kill)
	settings := fmt.Sprintf("secureClientPort=%d\nsecureClientPortAddress=127.0.0.1\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"+
		"ssl.clientAuth=none\nssl.keyStore.type=PEM\nssl.keyStore.location=%s\nssl.trustStore.type=PEM\nssl.trustStore.location=%s\n",
		ports[1], filepath.Join(dir, "store.pem"), filepath.Join(dir, "ca-cert.pem"))
	if err := errors.Join(s.configure(settings), s.Restart()); err != nil {
		t.Fatal(err)
	}
	return s, fmt.Sprintf("127.0.0.1:%d", ports[1]), filepath.Join(dir, "ca-cert.pem")
}

// bundle writes a key and its certificate into one file, as ZooKeeper wants them.
func bundle(dir string) error {
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	cert, failed := os.ReadFile(filepath.Join(dir, "cert.pem"))
	return errors.Join(err, failed, os.WriteFile(filepath.Join(dir, "store.pem"), append(key, cert...), 0o600))
}
