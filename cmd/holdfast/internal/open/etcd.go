package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/redishold/doctor"
)

const (
	// The client leaves a member that has not answered for 13 seconds, the sum of these two
	// times. They are not shorter, because servers close a connection whose keep-alives come
	// too often.
	etcdKeepAlive        = 10 * time.Second
	etcdKeepAliveTimeout = 3 * time.Second

	mostEtcdAnswer = 8 << 20 // the longest answer in bytes
)

// reconnecting returns parameters with which the client tries to reach a server again within
// two seconds. By default, the pauses between attempts grow to two minutes, and an attempt ends
// only after 20 s if the server accepts the connection and does not answer. Meanwhile, a waiter
// that is next in a queue would delay all other waiters.
func reconnecting() grpc.ConnectParams {
	pauses := backoff.DefaultConfig
	pauses.BaseDelay = 100 * time.Millisecond
	pauses.MaxDelay = time.Second
	return grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: etcdKeepAliveTimeout}
}

// etcd has the settings of an etcd before the first connection.
type etcd struct {
	config  clientv3.Config
	options *etcdhold.Options
	hosts   string
}

// parseEtcd reads etcd://[user:password@]host[:port],host[:port],..., or etcds:// for TLS. The
// only parameter is dial_timeout.
func parseEtcd(r Request) (*etcd, error) {
	a := cut(Etcd, r.Access, "dial_timeout")
	if a.path != "" && a.path != "/" {
		a.wrong("has a path: the name of a lock is the beginning of its keys as it stands, so put it there")
	}
	addrs := a.addrs()
	config := clientv3.Config{
		DialTimeout: a.dialLimit(), DialKeepAliveTime: etcdKeepAlive, DialKeepAliveTimeout: etcdKeepAliveTimeout,
		Logger:      zap.NewNop(), // errors are returned
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(reconnecting()), grpc.WithContextDialer((&pacedDialer{}).dial)},
		TLS:         a.tls(),
		// The client has no limit by default. etcd accepts values of 1.5 MiB, and a page of keys
		// has no values.
		MaxCallRecvMsgSize: mostEtcdAnswer,
	}
	config.Username, config.Password = a.login()
	scheme := "http://"
	if config.TLS != nil {
		scheme = "https://"
		if name := config.TLS.ServerName; name != "" { // without WithAuthority, each certificate must have the host of its server
			config.DialOptions = append(config.DialOptions, grpc.WithAuthority(name))
		}
	}
	for _, addr := range addrs {
		config.Endpoints = append(config.Endpoints, scheme+addr)
	}
	return &etcd{config: config, options: &etcdhold.Options{TTL: r.TTL}, hosts: strings.Join(addrs, ", ")}, a.err
}

func (e *etcd) backend() driver.Backend { return etcdhold.New(nil, e.options) }

func (e *etcd) open(ctx context.Context) (*Store, error) {
	client, err := dialEtcd(ctx, e.config)
	if err != nil {
		return nil, failure(Etcd, e.hosts, err)
	}
	ask := func(ctx context.Context) (state, error) {
		return anyState(ctx, client.Endpoints(), func(ctx context.Context, server string) (state, error) {
			r, err := client.Status(ctx, server)
			if err != nil {
				return state{}, err
			}
			now := state{version: r.Version}
			if r.Leader == 0 { // a member knows a leader only if the leader is connected to a majority
				now.trouble = errNoMajority
			}
			return now, nil
		})
	}
	return &Store{
		Kind: Etcd, Backend: etcdhold.New(client, e.options), hosts: e.hosts, state: ask,
		examine: func(ctx context.Context, _ time.Duration) (examined, error) { return examineEtcd(ctx, client) },
		close:   func() { _ = client.Close() }, // an error of Close does not matter
	}, nil
}

// dialEtcd connects, and returns the client when a server has answered.
func dialEtcd(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	limited, done := context.WithTimeout(ctx, config.DialTimeout)
	defer done()
	if err := probeEtcd(limited, config); err != nil {
		return nil, err
	}
	// clientv3.New logs in. Only the context in its configuration limits how long the login
	// takes.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(limited, cancel)
	config.Context = own
	client, err := clientv3.New(config)
	if !detach() { // the context of the client has ended
		if err == nil {
			_ = client.Close()
		}
		err = fmt.Errorf("no answer to the login in time: %w", limited.Err())
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return client, nil
}

// probeEtcd returns nil when a server has answered. It uses a separate client that does not
// repeat calls. The client for locks repeats failed calls until ctx ends, and then does not say
// why they failed. probeEtcd does not log in. If the configuration has a user, the answer that
// a login is missing counts as success.
func probeEtcd(ctx context.Context, config clientv3.Config) error {
	user := config.Username
	config.Username = ""
	config.Password = ""
	config.MaxUnaryRetries = 1
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = anyState(ctx, client.Endpoints(), func(ctx context.Context, server string) (state, error) {
		conn, err := client.Dial(server)
		if err != nil {
			return state{}, err
		}
		defer conn.Close()
		// Unlike Status of the client, this call does not wait for a server that is down.
		_, err = etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
		err = rpctypes.Error(err)
		if user != "" && errors.Is(err, rpctypes.ErrUserEmpty) {
			err = nil
		}
		return state{}, err
	})
	return err
}

// etcdQuota is the default of --quota-backend-bytes. An etcd refuses writes when its database
// has reached that size, in bytes.
const etcdQuota = 2 << 30

// etcdClient is a *clientv3.Client, or the client of a test.
type etcdClient interface {
	Endpoints() []string
	Status(ctx context.Context, server string) (*clientv3.StatusResponse, error)
	MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error)
}

// examineEtcd asks for the list of members. Then it asks servers for their status: the endpoints
// of the client, and the voting members at the URLs that they advertise to clients. It does not
// ask the members that do not vote (learners), because locks do not need them.
func examineEtcd(ctx context.Context, client etcdClient) (examined, error) {
	servers := client.Endpoints()
	members, unlisted := listEtcd(ctx, client)
	proxied := slices.ContainsFunc(members, func(m *etcdserverpb.Member) bool { return m.ID == 0 })
	if proxied { // "etcd grpc-proxy" names itself as a member, which has no id
		members = nil
	}
	voters := slices.DeleteFunc(slices.Clone(members), func(m *etcdserverpb.Member) bool { return m.IsLearner })
	var advertised []string
	for _, m := range voters {
		advertised = append(advertised, m.ClientURLs...)
	}
	answers := askEtcd(ctx, client, slices.Concat(servers, advertised))
	var errs []error
	for _, server := range servers {
		errs = append(errs, answers[server].err)
	}
	if !slices.Contains(errs, nil) {
		return examined{}, errors.Join(errs...)
	}
	all := examined{deployment: "cluster"}
	if len(members) == 1 {
		all.deployment = "standalone"
	}
	answered := make(map[uint64]bool) // by the id of a member
	for _, server := range slices.Concat(servers, advertised) {
		a := answers[server]
		switch {
		case a.err == nil && !answered[a.status.Header.MemberId]:
			answered[a.status.Header.MemberId] = true
			all.addEtcd(withoutScheme(server), a.status)
		case a.err != nil && !slices.Contains(advertised, server): // addUnreached adds the server if it is an advertised one
			all.add(doctor.Server{Address: withoutScheme(server)}, noAnswer(a.err))
		}
	}
	unreached := 0
	for _, m := range voters {
		if !answered[m.ID] {
			all.addUnreached(m, answers)
			unreached++
		}
	}
	if proxied {
		all.deployment = "proxy"
		all.findings = append(all.findings, because(saw("members", doctor.Note, "a proxy answers (etcd grpc-proxy), which does not name the members of the cluster"),
			"doctor cannot check the members, and renewals through the proxy may take half a second", "name the members themselves in the URL"))
		return all, nil
	}
	all.findings = append(all.findings, etcdMembers(len(voters), unreached, unlisted))
	return all, nil
}

// listEtcd returns the list of members that one server has, which may be old. Only a majority
// can confirm that a list is the newest one. But the list matters most when there is no
// majority, because it shows which members are down.
func listEtcd(ctx context.Context, client etcdClient) ([]*etcdserverpb.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	r, err := client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, err
	}
	return r.Members, nil
}

// etcdAnswer is the status that a server reported, or the error if it reported none.
type etcdAnswer struct {
	server string
	status *clientv3.StatusResponse
	err    error
}

// askEtcd asks all servers at the same time, and waits for askLimit at most. The keys of the
// result are the URLs of the servers. If the client uses TLS, askEtcd asks no URL without TLS,
// because the client would send its login there.
func askEtcd(ctx context.Context, client etcdClient, servers []string) map[string]etcdAnswer {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	secure := strings.HasPrefix(servers[0], "https://")
	ask := func(ctx context.Context, server string) (etcdAnswer, error) {
		if secure && strings.HasPrefix(server, "http://") {
			return etcdAnswer{server: server, err: errors.New("not asked, because this URL has no TLS")}, nil
		}
		status, err := client.Status(ctx, server)
		return etcdAnswer{server, status, err}, nil
	}
	answers := make(map[string]etcdAnswer)
	for a := range askAll(ctx, slices.Compact(slices.Sorted(slices.Values(servers))), ask) {
		answers[a.server] = a
	}
	return answers
}

func (e *examined) addEtcd(server string, status *clientv3.StatusResponse) {
	role := "follower"
	switch {
	case status.IsLearner:
		role = "learner"
	case status.Leader == status.Header.MemberId:
		role = "leader"
	}
	e.add(doctor.Server{Address: server, Version: "etcd " + status.Version, Role: role}, etcdServer(status)...)
}

func withoutScheme(server string) string {
	return strings.TrimPrefix(strings.TrimPrefix(server, "http://"), "https://")
}

// addUnreached adds the finding about a member that did not answer at any of its URLs.
func (e *examined) addUnreached(m *etcdserverpb.Member, answers map[string]etcdAnswer) {
	var why, silent []string
	for _, url := range m.ClientURLs {
		if err := answers[url].err; err != nil {
			why = append(why, fmt.Sprintf("%s: %v", url, err))
			silent = append(silent, withoutScheme(url))
			e.servers = append(e.servers, doctor.Server{Address: withoutScheme(url)})
		} else { // for example, the URL is that of localhost
			why = append(why, url+": another member answers")
		}
	}
	if len(why) == 0 {
		why = []string{"it advertises no URL to clients"}
	}
	name := cmp.Or(m.Name, fmt.Sprintf("%x", m.ID)) // a member has no name if it has never been started
	found := because(saw("answers", doctor.Warning, "member %s cannot be reached from here: %s", name, strings.Join(why, "; ")),
		"if one more member fails, the other members may be no majority",
		"start the member, open the network between this machine and the member, or correct its --advertise-client-urls; "+
			"if the member will never come back: etcdctl member remove")
	found.Servers = silent
	e.findings = append(e.findings, found)
}

// etcdMembers judges how many servers may fail. If err is not nil, the members are not known.
func etcdMembers(voters, unreached int, err error) doctor.Finding {
	if err != nil {
		f := saw("members", doctor.Unknown, "the server does not report its members: %v", err)
		if errors.Is(err, rpctypes.ErrPermissionDenied) {
			f.Remedy = "use a user with the role root"
		}
		return f
	}
	f := members("members", voters)
	if unreached > 0 {
		f.Saw += fmt.Sprintf("; not reached from here: %d", unreached)
	}
	return f
}

// etcdServer judges the status of one server.
func etcdServer(r *clientv3.StatusResponse) []doctor.Finding {
	found := []doctor.Finding{etcdSpace(r)}
	if r.Leader == 0 {
		found = append(found, because(saw("quorum", doctor.Danger, "the server has no leader"),
			"no lock is granted or renewed without a majority of the members", "start the members that are down: etcdctl endpoint status --cluster"))
	}
	for _, alarm := range r.Errors {
		found = append(found, because(saw("alarm", doctor.Danger, "%s", alarm),
			"an etcd with an alarm refuses writes: no lock is granted", "etcdctl alarm list; if the alarm is NOSPACE: compact, defragment, then etcdctl alarm disarm"))
	}
	if r.IsLearner {
		found = append(found, because(saw("learner", doctor.Warning, "the server is a learner"),
			"a learner grants no locks", "etcdctl member promote, or remove the server from the URL"))
	}
	return found
}

// etcdSpace judges how full the database is. Servers before 3.6 do not report their limit.
func etcdSpace(r *clientv3.StatusResponse) doctor.Finding {
	const mib = 1 << 20
	quota := r.DbSizeQuota
	known := "which is its limit"
	if quota == 0 {
		quota = etcdQuota
		known = "which is the default limit; this server does not report its own limit"
	}
	full := float64(r.DbSize) / float64(quota)
	return because(saw("space", reached(full, 0.8, doctor.Warning, 0.95, doctor.Danger), "the database uses %d MiB of %d MiB, %s", r.DbSize/mib, quota/mib, known),
		"an etcd that is full refuses writes: no lock is granted", "compact and defragment, or increase --quota-backend-bytes")
}

// members judges how many voting servers there are.
func members(id string, voters int) doctor.Finding {
	f := saw(id, worse(voters%2 == 0 || voters == 1, doctor.Note), "voting members: %d; of them %d may fail", voters, max(0, (voters-1)/2))
	if voters == 1 {
		return because(f, "while the server is down, no lock is granted, and the locks that are held are lost", "run three servers, on three machines")
	}
	return because(f, "with one member less, as many members may fail, and writes are faster", "use an odd number of members")
}
