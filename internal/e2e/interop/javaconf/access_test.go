package javaconf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// certificate returns the name of one of the PEM files of a server.
func certificate(t *testing.T, s *redistest.Server, kind string) string {
	t.Helper()
	answer, _ := s.Do("CONFIG", "GET", "tls-"+kind+"-file").([]any)
	if len(answer) != 2 {
		t.Fatalf("CONFIG GET: got %v, want a name and a value", answer)
	}
	return fmt.Sprint(answer[1])
}

func TestTLS(t *testing.T) {
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.TLS())
	server := d.Servers()[0]
	ca, cert, key := certificate(t, server, "ca-cert"), certificate(t, server, "cert"), certificate(t, server, "key")
	both := filepath.Join(t.TempDir(), "both.pem")
	var own []byte
	for _, name := range []string{cert, key} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, text...)
	}
	if err := os.WriteFile(both, own, 0o600); err != nil {
		t.Fatal(err)
	}
	redisson := func(more string) file {
		return file{"redisson.yaml", fmt.Sprintf("singleServerConfig:\n  address: rediss://%s\n  sslKeystore: file:%s\n%s", server.TLSAddr(), both, more)}
	}
	t.Run("trusted", func(t *testing.T) {
		lockWith(t, d.Bind(t), redisson("  sslTruststore: file:"+ca+"\n  sslKeystoreType: pem\n"))
	})
	t.Run("not trusted", func(t *testing.T) {
		refused(t, redisson("  sslKeystoreType: pem\n"), func(err error) bool { return strings.Contains(err.Error(), "certificate") })
	})
	t.Run("another name", func(t *testing.T) {
		f := redisson("  sslTruststore: " + ca + "\n  sslKeystoreType: pem\n")
		host, _, _ := strings.Cut(server.TLSAddr(), ":")
		f.text = strings.Replace(f.text, host, "localhost", 1) // the certificate is for the address
		refused(t, f, func(err error) bool { return strings.Contains(err.Error(), "certificate") })
	})
	t.Run("spring", func(t *testing.T) { // the certificates of a bundle are the program's to set
		host, port, _ := strings.Cut(server.TLSAddr(), ":")
		f := file{"application.properties", fmt.Sprintf("spring.data.redis.host=%s\nspring.data.redis.port=%s\nspring.data.redis.ssl.bundle=cache\n", host, port)}
		s, err := f.read()
		if err != nil {
			t.Fatal(err)
		}
		s.TLS.CACert, s.TLS.Cert, s.TLS.Key = ca, cert, key
		lockBy(t, d.Bind(t), s)
	})
}

// TestWrongPassword: each way says whose password is wrong, and does not show it.
func TestWrongPassword(t *testing.T) {
	d := redistest.StartDeployment(t, redistest.Standalone, redistest.Password(password))
	refused(t, file{"redisson.yaml", fmt.Sprintf("singleServerConfig:\n  address: redis://%s\n  password: hunter2\n", d.Seeds()[0])}, isReply)
	refused(t, file{"application.yaml", fmt.Sprintf("spring.redis.url: redis://:hunter2@%s\n", d.Seeds()[0])}, isReply)
}

func TestWrongSentinelPassword(t *testing.T) {
	d := redistest.StartDeployment(t, redistest.Sentinel, redistest.Password(password), redistest.SentinelPassword(sentinelPassword))
	s, err := file{"redisson.yaml", fmt.Sprintf("sentinelServersConfig:\n  sentinelAddresses: %s\n  masterName: %s\n  password: \"${REDIS_PASSWORD}\"\n"+
		"  sentinelPassword: hunter2\n", list("redis://", d.Seeds()), redistest.MasterName)}.read()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, shut, err := byRueidis(ctx, s)
	if err == nil {
		shut()
		t.Fatalf("got %v, want a refusal", conn)
	}
	if !isReply(err) || !strings.Contains(err.Error(), "sentinel_password") || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got error %q, want the Sentinels' refusal", err)
	}
}

func isReply(err error) bool {
	var reply *redishold.ReplyError
	return errors.As(err, &reply) && strings.HasPrefix(reply.Text, "WRONGPASS")
}

// refused wants an error of the kind that is meant from every way, at the latest
// when a lock is asked for.
func refused(t *testing.T, f file, meant func(error) bool) {
	t.Helper()
	s, err := f.read()
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range ways() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := tryLock(ctx, open, s)
		cancel()
		if err == nil || !meant(err) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s, %s: got error %v, want one that tells what is wrong", f.name, name, err)
		}
	}
}

func tryLock(ctx context.Context, open way, s *importconf.Settings) error {
	conn, shut, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer shut()
	lock, err := newLocker(conn, s).TryLock(ctx, "refused")
	if err != nil {
		return err
	}
	return errors.Join(errors.New("a lock was granted"), lock.Unlock())
}
