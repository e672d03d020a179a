package cli

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// etcdFace is as much of an etcd as is needed to log in and to tell its version.
type etcdFace struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedAuthServer
	loggedIn chan bool // whether a question came with the token of a login
	asks     bool      // for a login
	leader   uint64    // 0 without a majority
}

// Status returns the version, as an etcd does: where that has users, to them alone.
func (f *etcdFace) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	known := len(md.Get(rpctypes.TokenFieldNameGRPC)) > 0
	select {
	case f.loggedIn <- known:
	default:
	}
	if f.asks && !known {
		return nil, rpctypes.ErrGRPCUserEmpty
	}
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}, Version: "3.9.99", Leader: f.leader}, nil
}

// Authenticate knows one user.
func (f *etcdFace) Authenticate(_ context.Context, r *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	if r.Name != "app" || r.Password != "s3/cret" {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	return &etcdserverpb.AuthenticateResponse{Header: &etcdserverpb.ResponseHeader{}, Token: "token"}, nil
}

// keys are those of an etcdFace: there are none. Without a leader no question about them is
// answered.
type keys struct {
	*etcdFace
	etcdserverpb.UnimplementedKVServer
}

// Range returns no keys.
func (k keys) Range(ctx context.Context, _ *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	if k.leader == 0 {
		<-ctx.Done()
	}
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{}}, ctx.Err()
}

// leases are those of an etcdFace: none is granted.
type leases struct {
	etcdserverpb.UnimplementedLeaseServer
}

// LeaseGrant does not answer, as without a leader.
func (leases) LeaseGrant(ctx context.Context, _ *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// startEtcdFace starts one with a certificate, or without TLS, and returns its address.
func startEtcdFace(t *testing.T, config *tls.Config, asks bool) (*etcdFace, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &etcdFace{loggedIn: make(chan bool, 100), asks: asks, leader: 1}
	var options []grpc.ServerOption
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	server := grpc.NewServer(options...)
	etcdserverpb.RegisterKVServer(server, keys{etcdFace: f})
	etcdserverpb.RegisterLeaseServer(server, leases{})
	etcdserverpb.RegisterMaintenanceServer(server, f)
	etcdserverpb.RegisterAuthServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f, l.Addr().String()
}

// Certificates of both sides are verified, and what is wrong with one is said at once.
func TestEtcdOverTLS(t *testing.T) {
	pair, pool, cert, key := certificate(t)
	f, addr := startEtcdFace(t, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}, false)
	status := func(args ...string) result {
		return call(t, bare(), append([]string{"status", "--url", "etcds://" + addr}, args...)...)
	}
	if got := status("--cacert", cert, "--cert", cert, "--key", key); got.code != 0 || !strings.Contains(got.stdout, "etcd version 3.9.99") {
		t.Errorf("got %+v, want the version", got)
	}
	if <-f.loggedIn {
		t.Error("somebody logged in without a user")
	}
	status("--insecure", "--cert", cert, "--key", key).want(t, 0, "--insecure: certificates are not verified")
	status("--cert", cert, "--key", key).want(t, 69, "unknown authority")
	status("--cacert", cert, "--cert", cert, "--key", key, "--sni", "etcd.example").want(t, 69, "etcd.example")
	status("--cacert", cert).want(t, 69, "etcd at "+addr)
	call(t, bare(), "status", "--url", "etcd://"+addr).want(t, 69, "etcd at "+addr)
}

// The login is that of the URL, of the flags and of the environment; a wrong one is
// refused, and no error shows it.
func TestEtcdLogin(t *testing.T) {
	pair, _, cert, _ := certificate(t)
	f, addr := startEtcdFace(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, true)
	file := configure(t, "password", "s3/cret\n")
	conf := configure(t, "holdfast.yaml", "url: etcds://app@"+addr+"\netcd: {password_file: "+file+", tls: {ca: "+cert+"}}\n")
	for name, environ := range map[string][]string{
		"URL":           {"HOLDFAST_URL=etcds://app:s3%2Fcret@" + addr},
		"file":          {"HOLDFAST_URL=etcds://app@" + addr, "HOLDFAST_PASSWORD_FILE=" + file},
		"configuration": {"HOLDFAST_CONFIG=" + conf},
	} {
		for len(f.loggedIn) > 0 {
			<-f.loggedIn
		}
		args := []string{"status"}
		if name != "configuration" {
			args = append(args, "--cacert", cert)
		}
		call(t, bare(environ...), args...).want(t, 0)
		if len(f.loggedIn) < 2 {
			t.Fatalf("%s: got %d questions, want two", name, len(f.loggedIn))
		}
		<-f.loggedIn // whether the server is there is asked without a login
		if !<-f.loggedIn {
			t.Errorf("%s: the question came without a login", name)
		}
	}
	got := call(t, bare("HOLDFAST_URL=etcds://app:wr0ng@"+addr), "run", "--cacert", cert, "job", "true")
	got.want(t, output.ExitRefused, "etcd at "+addr, "authentication failed")
	if strings.Contains(got.stderr, "wr0ng") {
		t.Errorf("the password was printed: %s", got.stderr)
	}
	call(t, bare("HOLDFAST_URL=etcds://app:s3%2Fcret@"+addr), "run", "--cacert", cert, "--user", "other", "job", "true").want(t, output.ExitRefused, "authentication failed")
}
