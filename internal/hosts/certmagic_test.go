package hosts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
)

var _ interface {
	certmagic.Storage
	certmagic.TryLocker
	certmagic.LockLeaseRenewer
} = lockedStorage{}

// What certmagic asks of a Locker, of two servers.
func TestCertmagicLocker(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		files := &certmagic.FileStorage{Path: t.TempDir()}
		one, two := withLocks(newLocker(), files), withLocks(newLocker(), files)
		const name = "issue_cert_a.example"
		if err := one.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := one.(certmagic.LockLeaseRenewer).RenewLockLease(t.Context(), name, time.Hour); err != nil {
			t.Error(err)
		}
		if ok, err := two.(certmagic.TryLocker).TryLock(t.Context(), name); ok || err != nil {
			t.Errorf("another server got the lock: %v, %v", ok, err)
		}
		got := make(chan error)
		go func() { got <- two.Lock(context.Background(), name) }()
		select {
		case err := <-got:
			t.Fatalf("another server got the lock: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := one.Unlock(ended, name); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if err := two.Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
	})
}

// Two servers that need the same certificate at the same time order one.
func TestCertmagicIssuesOnce(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		files, ca := &certmagic.FileStorage{Path: t.TempDir()}, newIssuer(t)
		var servers sync.WaitGroup
		ca.asked.Add(2)
		for range 2 {
			cache := certmagic.NewCache(certmagic.CacheOptions{
				GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return &certmagic.Config{}, nil },
				Logger:           zap.NewNop(),
			})
			t.Cleanup(cache.Stop)
			config := certmagic.New(cache, certmagic.Config{
				Storage: withLocks(newLocker(), files), Issuers: []certmagic.Issuer{ca}, Logger: zap.NewNop(),
			})
			servers.Go(func() {
				ca.asked.Done()
				if err := config.ObtainCertSync(t.Context(), "a.example"); err != nil {
					t.Error(err)
				}
			})
		}
		servers.Wait()
		if n := ca.issued.Load(); n != 1 {
			t.Errorf("%d certificates were ordered", n)
		}
	})
}

// issuer signs with a key of its own.
type issuer struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
	asked  sync.WaitGroup // until all servers want a certificate
}

func newIssuer(t *testing.T) *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{key: key}
}

func (i *issuer) IssuerKey() string { return "test" }

func (i *issuer) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.issued.Add(1)
	i.asked.Wait()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, i.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}
