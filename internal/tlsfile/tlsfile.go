// Package tlsfile makes a configuration of TLS from PEM files.
package tlsfile

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Config returns a configuration that trusts the authorities in the file `ca`, or the
// authorities of the system if `ca` is "". If `cert` is not "", the configuration has a client
// certificate: the file `cert` contains the certificate, and the file `key` contains its key.
// Config reads files with the function `read`. An error names the file.
func Config(read func(name string) ([]byte, error), ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := read(ca)
		if err != nil {
			return nil, fmt.Errorf("certificates of the authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("certificates of the authorities: there is no PEM certificate in %s", ca)
		}
	}
	if cert != "" {
		text, err := read(cert)
		private, err2 := read(key)
		if err := cmp.Or(err, err2); err != nil {
			return nil, fmt.Errorf("own certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(text, private)
		if err != nil {
			return nil, fmt.Errorf("own certificate: %s, %s: %w", cert, key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// AnyName changes a configuration so that it verifies who signed the certificate of a server,
// but not the name in the certificate. crypto/tls has no such mode. So AnyName switches off all
// that crypto/tls verifies, and sets a function that verifies the signatures.
func AnyName(config *tls.Config) {
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server showed no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range state.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: config.RootCAs, Intermediates: between})
		return err
	}
}
