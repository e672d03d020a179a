package importconf

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Verify is what is looked at in the certificate of a server.
type Verify int

// What is verified.
const (
	VerifyAll       Verify = iota // who signed it and whom it is for
	VerifyAuthority               // only who signed it: CA_ONLY of Redisson
	VerifyNothing                 // the file says so; whoever is in between can read passwords and change locks
)

// TLS is how connections are encrypted.
type TLS struct {
	Enabled    bool
	CACert     string // PEM file of the authorities to trust; "" for those of the system
	Cert, Key  string // PEM files of our own certificate; both or none
	Verify     Verify
	MinVersion uint16 // of crypto/tls
}

// TLSConfig returns the settings for rueidisconn.Options.TLS or a client of the
// program's own, nil if the connections are not encrypted. The files are read
// with read, which may be os.ReadFile. An error names the file.
func (s *Settings) TLSConfig(read func(name string) ([]byte, error)) (*tls.Config, error) {
	t := s.TLS
	if !t.Enabled {
		return nil, nil
	}
	config := &tls.Config{MinVersion: max(t.MinVersion, tls.VersionTLS12), InsecureSkipVerify: t.Verify != VerifyAll} //nolint:gosec // the file says so
	if t.CACert != "" {
		text, err := read(t.CACert)
		if err != nil {
			return nil, fmt.Errorf("certificates of the authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("certificates of the authorities: there is no PEM certificate in %s", t.CACert)
		}
	}
	if t.Cert != "" {
		cert, err := read(t.Cert)
		key, err2 := read(t.Key)
		if err := cmp.Or(err, err2); err != nil {
			return nil, fmt.Errorf("own certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("own certificate: %s, %s: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if t.Verify == VerifyAuthority {
		// crypto/tls has no such mode: it is told to verify nothing, and what it
		// would have verified apart from the name is done here.
		config.VerifyConnection = func(state tls.ConnectionState) error { return signedBy(config.RootCAs, state) }
	}
	return config, nil
}

// signedBy verifies the certificates of a server for any name; roots is nil for
// those of the system.
func signedBy(roots *x509.CertPool, state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server showed no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// protocol takes over which versions of TLS are allowed. Nothing older than 1.2 is
// ever spoken.
func (r *reader) protocol() {
	switch names := r.list(r.protocols); {
	case len(names) == 0:
	case slices.Contains(names, "TLSv1.2"):
		r.s.TLS.MinVersion = tls.VersionTLS12
	case slices.Contains(names, "TLSv1.3"):
		r.s.TLS.MinVersion = tls.VersionTLS13
	default:
		r.fault(r.protocols, "neither TLSv1.2 nor TLSv1.3 is in it; older ones are not spoken here")
	}
}

// pemFile returns the file that e names, perhaps with a URL.
func (r *reader) pemFile(e entry) string {
	text := r.text(e)
	name, isURL := strings.CutPrefix(text, "file:")
	if rest, slashes := strings.CutPrefix(name, "//"); isURL && slashes {
		name = rest
		if !strings.HasPrefix(name, "/") {
			r.fault(e, "a file: URL has three slashes before an absolute path")
		}
	}
	switch {
	case strings.HasPrefix(text, "classpath:"):
		r.fault(e, "the class path of a Java program cannot be read here; name a file")
	case strings.Contains(text, "-----BEGIN"):
		r.fault(e, "it holds the certificate or the key itself; put that into a file and name it here")
	case strings.HasPrefix(text, "base64:") || strings.Contains(name, "://") || isURL && name == "":
		r.fault(e, "only files can be read here; name one")
	}
	return name
}
