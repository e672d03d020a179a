package rueidisconn

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// answer returns the reply of a fake server to a command, in RESP, or "" for the default
// reply.
type answer func(command string) string

// serve starts a server with the replies of say. It ends with t.
func serve(t *testing.T, config *tls.Config, say answer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[conn] = true
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				if config != nil {
					speak(tls.Server(conn, config), say)
				} else {
					speak(conn, say)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

func speak(conn net.Conn, say answer) {
	r := bufio.NewReader(conn)
	for {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		reply := say(command)
		if reply == "" {
			reply = byDefault(command)
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) (string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return "", err
	}
	words := make([]string, n)
	for i := range words {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return "", err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return "", err
		}
		words[i] = string(word[:size])
	}
	return strings.Join(words, " "), nil
}

// byDefault returns the reply of a single server.
func byDefault(command string) string {
	switch {
	case strings.HasPrefix(command, "HELLO"):
		return hello("standalone")
	case strings.HasPrefix(command, "CLUSTER"):
		return "-ERR This instance has cluster support disabled\r\n"
	case strings.HasPrefix(command, "CLIENT"), strings.HasPrefix(command, "SELECT"):
		return "+OK\r\n"
	case strings.HasPrefix(command, "PING"):
		return "+PONG\r\n"
	case command == "ROLE":
		return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
	default:
		return "-ERR unknown command '" + strings.Fields(command)[0] + "'\r\n"
	}
}

func hello(mode string) string {
	return "%3\r\n" + bulk("version") + bulk("7.0.15") + bulk("proto") + ":3\r\n" + bulk("mode") + bulk(mode)
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// sentinel returns the replies of a Sentinel that knows one master.
func sentinel(name, master string) answer {
	return func(command string) string {
		switch words := strings.Fields(command); {
		case words[0] == "HELLO":
			return hello("sentinel")
		case words[0] == "CLUSTER":
			return "-ERR unknown command 'CLUSTER'\r\n"
		case words[0] == "UNSUBSCRIBE":
			return ">3\r\n" + bulk("unsubscribe") + "_\r\n:0\r\n"
		case words[0] == "SUBSCRIBE":
			var s strings.Builder
			for i, channel := range words[1:] {
				fmt.Fprintf(&s, ">3\r\n%s%s:%d\r\n", bulk("subscribe"), bulk(channel), i+1)
			}
			return s.String()
		case command == "SENTINEL SENTINELS "+name:
			return "*0\r\n"
		case command == "SENTINEL GET-MASTER-ADDR-BY-NAME "+name:
			host, port, _ := net.SplitHostPort(master)
			return "*2\r\n" + bulk(host) + bulk(port)
		case strings.HasPrefix(command, "SENTINEL GET"):
			return "_\r\n"
		default:
			return ""
		}
	}
}

// nobody returns an address at which no server listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silent returns an address at which connections are accepted and nothing is
// ever said.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	der, a.key = a.sign(template, template, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func (a *authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate for a host, which is a name or an IP address.
func (a *authority) issue(host string) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, key := a.sign(template, a.cert, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
