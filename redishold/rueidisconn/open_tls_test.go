package rueidisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func plain(string) string { return "" }

func mustOpen(t *testing.T, url string, o *Options) {
	t.Helper()
	conn, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	conn.Close()
}

func TestTLSVerifies(t *testing.T) {
	ca := newAuthority(t)
	addr := serve(t, &tls.Config{Certificates: []tls.Certificate{ca.issue("127.0.0.1")}}, plain)

	mustOpen(t, "rediss://"+addr, &Options{TLS: &tls.Config{RootCAs: ca.roots()}})
	mustOpen(t, "rediss://"+addr+"?skip_verify=true", nil)
	mustOpen(t, "rediss://"+addr, &Options{TLS: &tls.Config{InsecureSkipVerify: true}})

	_, err := Open(t.Context(), "rediss://u:secret@"+addr, nil)
	if !errors.As(err, new(x509.UnknownAuthorityError)) || !errors.Is(err, driver.ErrNotExecuted) || strings.Contains(err.Error(), "secret") {
		t.Errorf("unknown authority: got error %v", err)
	}
	_, err = Open(t.Context(), "rediss://"+addr, &Options{TLS: &tls.Config{RootCAs: newAuthority(t).roots()}})
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("another authority: got error %v", err)
	}
	other := serve(t, &tls.Config{Certificates: []tls.Certificate{ca.issue("redis.example")}}, plain)
	_, err = Open(t.Context(), "rediss://"+other, &Options{TLS: &tls.Config{RootCAs: ca.roots()}})
	if !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("another host: got error %v", err)
	}
	mustOpen(t, "rediss://"+other, &Options{TLS: &tls.Config{RootCAs: ca.roots(), ServerName: "redis.example"}})
}

func TestTLSRefusesOldVersions(t *testing.T) {
	ca := newAuthority(t)
	addr := serve(t, &tls.Config{Certificates: []tls.Certificate{ca.issue("127.0.0.1")}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, plain)
	_, err := Open(t.Context(), "rediss://"+addr, &Options{TLS: &tls.Config{RootCAs: ca.roots()}})
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("got error %v", err)
	}
}

func TestTLSClientCertificate(t *testing.T) {
	ca := newAuthority(t)
	addr := serve(t, &tls.Config{
		Certificates: []tls.Certificate{ca.issue("127.0.0.1")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.roots(),
	}, plain)
	mustOpen(t, "rediss://"+addr, &Options{TLS: &tls.Config{RootCAs: ca.roots(), Certificates: []tls.Certificate{ca.issue("client")}}})
	_, err := Open(t.Context(), "rediss://"+addr, &Options{TLS: &tls.Config{RootCAs: ca.roots()}})
	if !errors.Is(err, driver.ErrNotExecuted) {
		t.Errorf("without one: got error %v", err)
	}
}

func TestTLSWithSentinels(t *testing.T) {
	ca := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.issue("127.0.0.1")}}
	addr := serve(t, config, sentinel("m", serve(t, config, plain)))
	mustOpen(t, "rediss+sentinel://"+addr+"/m", &Options{TLS: &tls.Config{RootCAs: ca.roots()}})
	_, err := Open(t.Context(), "rediss+sentinel://"+addr+"/m", nil)
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("unknown authority: got error %v", err)
	}
	addr = serve(t, config, sentinel("m", serve(t, nil, plain)))
	if _, err := Open(t.Context(), "rediss+sentinel://"+addr+"/m", &Options{TLS: &tls.Config{RootCAs: ca.roots()}}); !errors.Is(err, driver.ErrNotExecuted) {
		t.Errorf("a master without TLS: got error %v", err)
	}
}

// Settings for TLS must not go unused.
func TestTLSWithoutTLS(t *testing.T) {
	for _, url := range []string{"redis://h", "unix:///s", "redis+cluster://h", "valkey+sentinel://h/m"} {
		_, err := Open(t.Context(), url, &Options{TLS: &tls.Config{}})
		if err == nil || !strings.Contains(err.Error(), "asks for no TLS") {
			t.Errorf("%s: got error %v", url, err)
		}
	}
}

// Certificates are for the host that was meant, also where connections go
// through a tunnel.
func TestDial(t *testing.T) {
	ca := newAuthority(t)
	addr := serve(t, &tls.Config{Certificates: []tls.Certificate{ca.issue("redis.example")}}, plain)
	var dialed atomic.Pointer[string]
	o := &Options{
		TLS: &tls.Config{RootCAs: ca.roots()},
		Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
			target := network + " " + to
			dialed.Store(&target)
			if _, ok := ctx.Deadline(); !ok {
				return nil, errors.New("the context has no deadline")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		},
	}
	mustOpen(t, "rediss://redis.example:7000", o)
	if got := *dialed.Load(); got != "tcp redis.example:7000" {
		t.Errorf("dialled %q", got)
	}
	if _, err := Open(t.Context(), "rediss://redis.other", o); !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("another host: got error %v", err)
	}
	o.TLS = nil
	plainAddr := serve(t, nil, plain)
	addr = plainAddr
	mustOpen(t, "unix:///run/redis.sock", o)
	if got := *dialed.Load(); got != "unix /run/redis.sock" {
		t.Errorf("dialled %q", got)
	}
}

func TestDialFails(t *testing.T) {
	cause := errors.New("the tunnel is closed")
	_, err := Open(t.Context(), "redis://u:secret@h", &Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, cause }})
	if !errors.Is(err, cause) || !errors.Is(err, driver.ErrNotExecuted) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got error %v", err)
	}
}

// A cluster that is known by one name has certificates for it, and announces bare IP
// addresses.
func TestCertificateNames(t *testing.T) {
	for _, test := range []struct{ url, addr, want string }{
		{"rediss://redis.example", "redis.example:6379", "redis.example"},
		{"rediss://redis.example", "10.0.0.7:6379", "redis.example"},
		{"rediss://redis.example", "node7.example:6379", "node7.example"},
		{"rediss://10.0.0.1", "10.0.0.7:6379", "10.0.0.7"},
		{"rediss+cluster://a.example,b.example", "10.0.0.7:6379", "10.0.0.7"},
		{"rediss+cluster://a.example", "b.example:6379", "b.example"},
		{"rediss+sentinel://s.example/m", "10.0.0.7:6379", "10.0.0.7"},
	} {
		got, err := targetOf("", test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		config := got.transport.forServer(got.option.TLSConfig, test.addr)
		if config.ServerName != test.want || config.InsecureSkipVerify || config.MinVersion < tls.VersionTLS12 {
			t.Errorf("%s, node %s: wants a certificate for %q, want %q", test.url, test.addr, config.ServerName, test.want)
		}
	}
	config := (&transport{named: "a"}).forServer(&tls.Config{ServerName: "own"}, "10.0.0.7:1")
	if config.ServerName != "own" {
		t.Errorf("Options.TLS.ServerName became %q", config.ServerName)
	}
}
