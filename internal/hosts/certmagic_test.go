package hosts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
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

// What suites for a Storage ask of its locks, of two servers.
func TestCertmagicLocker(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		files := &certmagic.FileStorage{Path: t.TempDir()}
		one, two := withLocks(newLocker(), files), withLocks(newLocker(), files)
		ctx := t.Context()
		const name = "issue_cert_a.example"
		if err := one.Unlock(ctx, name); err == nil {
			t.Error("Unlock of a name that is not locked returned nil")
		}
		if ok, err := one.(certmagic.TryLocker).TryLock(ctx, name); !ok || err != nil {
			t.Fatalf("a free name: %v, %v", ok, err)
		}
		if err := one.(certmagic.LockLeaseRenewer).RenewLockLease(ctx, name, time.Hour); err != nil {
			t.Error(err)
		}
		if ok, err := two.(certmagic.TryLocker).TryLock(ctx, name); ok || err != nil {
			t.Errorf("another server got the lock: %v, %v", ok, err)
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if err := two.Lock(short, name); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another server waits: %v, want the end of its context", err)
		}
		if err := one.Unlock(short, name); err != nil {
			t.Errorf("Unlock after the end of the context: %v", err)
		}
		contend(t, one, two)
	})
}

// contend has servers lock and unlock several names at the same time.
func contend(t *testing.T, servers ...certmagic.Storage) {
	t.Helper()
	var all sync.WaitGroup
	for n := range 5 {
		var inside atomic.Int32
		name := fmt.Sprint("name ", n)
		for _, s := range servers {
			all.Go(func() {
				for range 5 {
					if err := s.Lock(t.Context(), name); err != nil {
						t.Error(err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%s: %d servers hold it", name, n)
					}
					inside.Add(-1)
					if err := s.Unlock(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
}

// askedStorage counts who has asked for a lock.
type askedStorage struct {
	certmagic.Storage
	asked *sync.WaitGroup
}

func (s askedStorage) Lock(ctx context.Context, name string) error {
	s.asked.Done()
	return s.Storage.Lock(ctx, name)
}

// Two servers that need the same certificate at the same time order one.
func TestCertmagicIssuesOnce(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		files, ca := &certmagic.FileStorage{Path: t.TempDir()}, newIssuer(t)
		var servers sync.WaitGroup
		ca.asked.Add(2)
		for range 2 {
			config := newConfig(t, certmagic.Config{
				Storage: askedStorage{withLocks(newLocker(), files), &ca.asked},
				Issuers: []certmagic.Issuer{ca}, Logger: zap.NewNop(),
			})
			servers.Go(func() {
				if err := config.ManageSync(t.Context(), []string{"a.example"}); err != nil {
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

// newConfig returns a Config with a cache of its own, which ends with t.
func newConfig(t *testing.T, c certmagic.Config) (config *certmagic.Config) {
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           c.Logger,
	})
	t.Cleanup(cache.Stop)
	config = certmagic.New(cache, c)
	return config
}

// issuer signs with a key of its own.
type issuer struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
	asked  sync.WaitGroup // until all servers have asked for the lock
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
