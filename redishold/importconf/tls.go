package importconf

import (
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
	config := &tls.Config{MinVersion: max(t.MinVersion, tls.VersionTLS12)}
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
		pair, err := t.pair(read)
		if err != nil {
			return nil, fmt.Errorf("own certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	switch t.Verify {
	case VerifyNothing:
		config.InsecureSkipVerify = true
	case VerifyAuthority:
		// crypto/tls has no such mode: it is told to verify nothing, and what it
		// would have verified apart from the name is done here.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error { return signedBy(config.RootCAs, state) }
	case VerifyAll:
	}
	return config, nil
}

func (t TLS) pair(read func(string) ([]byte, error)) (tls.Certificate, error) {
	cert, err := read(t.Cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := read(t.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s, %s: %w", t.Cert, t.Key, err)
	}
	return pair, nil
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

// protocols takes over which versions of TLS are allowed. Nothing older than 1.2
// is ever spoken.
func (t *TLS) protocols(e entry) error {
	names, err := e.list()
	if err != nil {
		return err
	}
	switch {
	case len(names) == 0:
	case slices.Contains(names, "TLSv1.2"):
		t.MinVersion = tls.VersionTLS12
	case slices.Contains(names, "TLSv1.3"):
		t.MinVersion = tls.VersionTLS13
	default:
		return e.fault("neither TLSv1.2 nor TLSv1.3 is in it; older ones are not spoken here")
	}
	return nil
}

// pemFile returns the file that a value names, which may be a URL.
func pemFile(e entry) (string, error) {
	text, err := e.text()
	if err != nil || text == "" {
		return "", err
	}
	name, isURL := strings.CutPrefix(text, "file:")
	if isURL && strings.HasPrefix(name, "//") {
		name = strings.TrimPrefix(name, "//")
		if !strings.HasPrefix(name, "/") {
			return "", e.fault("a file: URL has three slashes before an absolute path")
		}
	}
	switch {
	case strings.HasPrefix(text, "classpath:"):
		return "", e.fault("the class path of a Java program cannot be read here; name a file")
	case strings.Contains(text, "-----BEGIN"):
		return "", e.fault("it holds the certificate or the key itself; put that into a file and name it here")
	case strings.HasPrefix(text, "base64:") || strings.Contains(name, "://"):
		return "", e.fault("only files can be read here; name one")
	case name == "":
		return "", e.fault("the name of a file is expected here")
	}
	return name, nil
}
