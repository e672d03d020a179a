package importconf_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// certificates are files in memory.
type certificates map[string][]byte

func (c certificates) read(name string) ([]byte, error) {
	text, ok := c[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

// issue makes an authority, and a certificate of it for the host "right".
func issue(t *testing.T) (certificates, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"right"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	both := append(append([]byte{}, cert...), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	return certificates{"ca.pem": cert, "own.pem": both, "empty.pem": nil}, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func redissonTLS(t *testing.T, keys string) *importconf.Settings {
	t.Helper()
	s, err := importconf.Redisson([]byte("singleServerConfig: {address: 'rediss://h:1', "+keys+"}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestVerification shakes hands with a server whose certificate is for "right".
func TestVerification(t *testing.T) {
	trusted, server := issue(t)
	others, _ := issue(t)
	for _, c := range []struct {
		keys   string
		files  certificates
		name   string
		refuse string // part of the error; "" for none
	}{
		{"sslTruststore: ca.pem", trusted, "right", ""},
		{"sslTruststore: ca.pem", trusted, "wrong", "valid for right"},
		{"sslTruststore: ca.pem", others, "right", "unknown authority"},
		{"sslVerificationMode: STRICT", trusted, "right", "unknown authority"},
		{"sslTruststore: ca.pem, sslVerificationMode: CA_ONLY", trusted, "wrong", ""},
		{"sslTruststore: ca.pem, sslVerificationMode: CA_ONLY", others, "wrong", "unknown authority"},
		{"sslVerificationMode: CA_ONLY", trusted, "right", "unknown authority"},
		{"sslTruststore: ca.pem, sslVerificationMode: NONE", others, "right", "unknown authority"},
		{"sslTruststore: ca.pem, sslEnableEndpointIdentification: false", trusted, "wrong", ""},
		{"sslEnableEndpointIdentification: false", trusted, "wrong", ""},
		{"sslVerificationMode: NONE", trusted, "wrong", ""},
	} {
		config, err := redissonTLS(t, c.keys).TLSConfig(c.files.read)
		if err != nil {
			t.Fatal(err)
		}
		config.ServerName = c.name
		err = handshake(t, config, server)
		if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%s, host %s: got %v, want an error with %q", c.keys, c.name, err, c.refuse)
		}
	}
}

func handshake(t *testing.T, config *tls.Config, server tls.Certificate) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // not net.Pipe: both sides may write at once
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		far, err := listener.Accept()
		if err != nil {
			return
		}
		defer far.Close()
		_ = far.SetDeadline(time.Now().Add(10 * time.Second))
		_ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server}}).Handshake()
	}()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = near.SetDeadline(time.Now().Add(10 * time.Second))
	err = tls.Client(near, config).Handshake()
	near.Close()
	<-done
	return err
}

func TestCertificateFiles(t *testing.T) {
	files, _ := issue(t)
	config, err := redissonTLS(t, "sslKeystore: own.pem, sslKeystorePassword: x, sslProtocols: [TLSv1.3]").TLSConfig(files.read)
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Certificates) != 1 || config.MinVersion != tls.VersionTLS13 || config.RootCAs != nil || config.InsecureSkipVerify {
		t.Errorf("got %d certificates, version %x, want one and TLS 1.3, and nothing else", len(config.Certificates), config.MinVersion)
	}
	for keys, want := range map[string]string{
		"sslTruststore: missing.pem": "missing.pem",
		"sslTruststore: empty.pem":   "no PEM certificate in empty.pem",
		"sslKeystore: missing.pem":   "missing.pem",
		"sslKeystore: ca.pem":        "ca.pem",
	} {
		if config, err := redissonTLS(t, keys).TLSConfig(files.read); err == nil || config != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", keys, err, want)
		}
	}
}

// TestWithoutTLS: keys for certificates are listed as ignored, and there is no TLS configuration
// that a program could use by mistake.
func TestWithoutTLS(t *testing.T) {
	s, err := importconf.Redisson([]byte("singleServerConfig: {address: 'redis://h:1', sslTruststore: 'file:/t.jks', sslTruststorePassword: x}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Ignored) != 2 || !strings.Contains(s.Ignored[0].Why, "rediss://") {
		t.Errorf("got ignored %v, want both keys", s.Ignored)
	}
	config, err := s.TLSConfig(nil)
	if config != nil || err != nil {
		t.Errorf("got %v, %v, want neither", config, err)
	}
}
