package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// certificate makes a certificate for 127.0.0.1, for servers and clients, and
// its files. It vouches for itself.
func certificate(t *testing.T) (pair tls.Certificate, pool *x509.CertPool, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key = write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", pkcs8)
	if pair, err = tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return pair, pool, cert, key
}

func TestRunOverTLS(t *testing.T) {
	pair, pool, cert, key := certificate(t)
	server := miniredis.NewMiniRedis()
	err := server.StartTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := &site{t: t, server: server, environ: []string{"PATH=" + os.Getenv("PATH"), "HOLDFAST_URL=rediss://" + server.Addr()}}
	s.run("run", "--cacert", cert, "--cert", cert, "--key", key, "job", "true").want(t, 0)
	s.run("run", "--insecure", "--cert", cert, "--key", key, "job", "true").want(t, 0, "--insecure: certificates are not verified")
	s.run("run", "--cert", cert, "--key", key, "job", "true").want(t, 69, "unknown authority")
	s.run("run", "--cacert", cert, "job", "true").want(t, 69, "certificate required")
	s.run("run", "--cacert", cert, "--cert", cert, "--key", key, "--sni", "redis.example", "job", "true").want(t, 69, "redis.example")
	s.run("run", "--url", "redis://"+server.Addr(), "--cacert", cert, "job", "true").want(t, 64, "asks for no TLS")
}

func TestRunTLSFiles(t *testing.T) {
	s := newSite(t)
	_, _, cert, key := certificate(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("MIIsecretsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--cacert", "absent.pem"}, "absent.pem"},
		{[]string{"--cacert", empty}, empty},
		{[]string{"--cacert", key}, key},
		{[]string{"--cert", cert}, "--cert and --key"},
		{[]string{"--key", key}, "--cert and --key"},
		{[]string{"--cert", cert, "--key", "absent.pem"}, "absent.pem"},
		{[]string{"--cert", empty, "--key", key}, empty},
		{[]string{"--cert", cert, "--key", empty}, empty},
		{[]string{"--cert", key, "--key", cert}, key},
	} {
		got := s.run(append(append([]string{"run"}, test.args...), "job", "true")...)
		got.want(t, 64, test.want)
		secret, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(secret)) {
			if strings.Contains(got.stderr, strings.TrimSpace(line)) || strings.Contains(got.stderr, "MII") {
				t.Errorf("%q: the key was printed: %s", test.args, got.stderr)
			}
		}
	}
}

func TestPasswordsOnTheCommandLine(t *testing.T) {
	s := newSite(t)
	s.server.RequireUserAuth("app", "s3cret")
	addr := s.server.Addr()
	const warning = "can read the password in --url"
	s.run("run", "--url", "redis://app:s3cret@"+addr, "job", "true").want(t, 0, warning)
	s.run("run", "--url", "redis+sentinel://127.0.0.1:1/m?sentinel_password=s3cret", "job", "true").want(t, 69, warning, "Sentinel at 127.0.0.1:1")
	s.environ = append(s.environ, "REDISCLI_AUTH=s3cret")
	s.run("run", "-u", "redis://app@"+addr, "job", "true").want(t, 0)
	s.run("run", "--user", "app", "job", "true").want(t, 0)
	s.run("run", "--user", "other", "job", "true").want(t, 77, "WRONGPASS")
}
