package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLS makes the server listen on a second port, TLSAddr, where it asks for a
// client certificate; TLSConfig has one. Servers of a deployment also talk TLS
// with each other. Addr stays without TLS, for the Server's own commands.
func TLS() Option { return func(c *config) { c.tls = new(authority) } }

// TLSConfig returns what a client of TLSAddr needs: the authority to trust and a
// client certificate. It is nil without the option TLS.
func (s *Server) TLSConfig() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return s.tls.Clone()
}

// TLSAddr returns the address for TLS as "host:port", or "" without the option
// TLS.
func (s *Server) TLSAddr() string {
	if s.tls == nil {
		return ""
	}
	return s.peer
}

// addTLS writes the certificates and makes the server use them.
func (s *Server) addTLS(c *config, p ports) error {
	if c.tls == nil {
		return nil
	}
	if err := c.tls.write(s.dir); err != nil {
		return err
	}
	s.tls, s.peer = c.tls.client, loopback(p.tls)
	*c = c.with(fmt.Sprintf("tls-port %d", p.tls), "tls-auth-clients yes", "tls-replication yes")
	for _, kind := range []string{"cert", "key", "ca-cert"} {
		*c = c.with(fmt.Sprintf("tls-%s-file %q", kind, filepath.Join(s.dir, kind+".pem")))
	}
	if c.bus {
		*c = c.with("tls-cluster yes")
	}
	return nil
}

// authority is a certificate authority with one certificate for servers and one
// for clients.
type authority struct {
	ca, cert, key []byte // PEM
	client        *tls.Config
}

// Certificates writes into dir what a server of another kind needs for TLS on 127.0.0.1: the
// certificate of a new authority, ca-cert.pem, and one for the server with its key,
// cert.pem and key.pem.
func Certificates(dir string) error {
	a, err := newAuthority()
	if err != nil {
		return err
	}
	return a.write(dir)
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := certificate(1, "test authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	a := &authority{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if !pool.AppendCertsFromPEM(a.ca) {
		return nil, errors.New("the authority's certificate cannot be read back")
	}
	if a.cert, a.key, err = issue(certificate(2, "test server"), ca, key); err != nil {
		return nil, err
	}
	clientCert, clientKey, err := issue(certificate(3, "test client"), ca, key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(clientCert, clientKey)
	if err != nil {
		return nil, err
	}
	a.client = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return a, nil
}

// certificate returns a template that is valid for an hour before and a day
// after now. Servers use theirs as clients too, of each other.
func certificate(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

func issue(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, own.Public(), caKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// write puts what a server needs into dir.
func (a *authority) write(dir string) error {
	for name, text := range map[string][]byte{"ca-cert": a.ca, "cert": a.cert, "key": a.key} {
		if err := os.WriteFile(filepath.Join(dir, name+".pem"), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
