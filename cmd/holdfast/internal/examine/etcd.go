package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// askLimit is how long one server may take for an answer.
const askLimit = 3 * time.Second

// etcdQuota is the size of the database from which on an etcd refuses writes, by default (its
// --quota-backend-bytes).
const etcdQuota = 2 << 30

// etcdClient is a *clientv3.Client, or the client of a test.
type etcdClient interface {
	Endpoints() []string
	Status(ctx context.Context, server string) (*clientv3.StatusResponse, error)
	MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error)
}

// Etcd returns the Ask for an etcd. It asks for the list of members, and then for the status
// of the servers of client, and of the voting members at the URLs that they advertise to
// clients. Locks do not need the other members, the learners.
func Etcd(client etcdClient) Ask {
	return func(ctx context.Context, _ *doctor.Options) (Facts, error) {
		servers := client.Endpoints()
		members, unlisted := listEtcd(ctx, client)
		var voters []*etcdserverpb.Member
		var advertised []string
		for _, m := range members {
			if !m.IsLearner {
				voters, advertised = append(voters, m), append(advertised, m.ClientURLs...)
			}
		}
		answers := askEtcd(ctx, client, slices.Concat(servers, advertised))
		facts := Facts{Deployment: "cluster"}
		if len(members) == 1 {
			facts.Deployment = "standalone"
		}
		answered := make(map[uint64]bool) // by the id of a member
		var errs []error
		for _, server := range servers {
			a := answers[server]
			errs = append(errs, a.err)
			if a.err == nil {
				answered[a.status.Header.MemberId] = true
			}
			if a.err == nil || !slices.Contains(advertised, server) { // otherwise addEtcdMember adds it
				facts.addEtcd(server, a)
			}
		}
		if !slices.Contains(errs, nil) {
			return Facts{}, errors.Join(errs...)
		}
		unreached := 0
		for _, m := range voters {
			if !answered[m.ID] && !facts.addEtcdMember(m, answers) {
				unreached++
			}
		}
		facts.Findings = append(facts.Findings, etcdMembers(len(voters), unreached, unlisted))
		return facts, nil
	}
}

// listEtcd returns the members, as one server has the list. This list may be old. It is used
// because no server can confirm the newest list without a majority, and then the members that
// are down matter most.
func listEtcd(ctx context.Context, client etcdClient) ([]*etcdserverpb.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	r, err := client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, err
	}
	return r.Members, nil
}

// etcdAnswer is the status that a server reported, or the error why there is none.
type etcdAnswer struct {
	status *clientv3.StatusResponse
	err    error
}

// askEtcd asks servers at the same time, each for askLimit at most, and returns their answers
// by their URLs. A client with TLS does not ask URLs without TLS, because it would send its
// login there.
func askEtcd(ctx context.Context, client etcdClient, servers []string) map[string]*etcdAnswer {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	secure := strings.HasPrefix(servers[0], "https://")
	answers := make(map[string]*etcdAnswer)
	var asked sync.WaitGroup
	for _, server := range servers {
		if answers[server] != nil {
			continue
		}
		a := &etcdAnswer{}
		answers[server] = a
		if secure && strings.HasPrefix(server, "http://") {
			a.err = errors.New("not asked, because this URL is without TLS")
			continue
		}
		asked.Go(func() { a.status, a.err = client.Status(ctx, server) })
	}
	asked.Wait()
	return answers
}

func (f *Facts) addEtcd(server string, a *etcdAnswer) {
	server = withoutScheme(server)
	if a.err != nil {
		f.add(doctor.Server{Address: server}, noAnswer(a.err))
		return
	}
	role := "follower"
	switch {
	case a.status.IsLearner:
		role = "learner"
	case a.status.Leader == a.status.Header.MemberId:
		role = "leader"
	}
	f.add(doctor.Server{Address: server, Version: "etcd " + a.status.Version, Role: role}, etcdServer(a.status)...)
}

func withoutScheme(server string) string {
	return strings.TrimPrefix(strings.TrimPrefix(server, "http://"), "https://")
}

// addEtcdMember adds the findings from the answer of m, or a finding that m cannot be
// reached. It reports whether m has answered.
func (f *Facts) addEtcdMember(m *etcdserverpb.Member, answers map[string]*etcdAnswer) bool {
	var why, silent []string
	for _, url := range m.ClientURLs {
		switch a := answers[url]; {
		case a.err != nil:
			why, silent = append(why, fmt.Sprintf("%s: %v", url, a.err)), append(silent, withoutScheme(url))
		case a.status.Header.MemberId != m.ID: // it advertises localhost, for instance
			why = append(why, url+": another member answers")
		default:
			f.addEtcd(url, a)
			return true
		}
	}
	for _, server := range silent {
		f.Servers = append(f.Servers, doctor.Server{Address: server})
	}
	if len(why) == 0 {
		why = []string{"it advertises no URL to clients"}
	}
	name := cmp.Or(m.Name, fmt.Sprintf("%x", m.ID)) // it has no name if it has never been started
	found := because(saw("answers", doctor.Warning, "member %s cannot be reached from here: %s", name, strings.Join(why, "; ")),
		"the others may not be enough if one more fails", "start it, open the way to it, or correct its --advertise-client-urls; take a member that is gone for good out: etcdctl member remove")
	found.Servers = silent
	f.Findings = append(f.Findings, found)
	return false
}

// etcdMembers judges how many servers may fail. If err is not nil, the members are not known.
func etcdMembers(voters, unreached int, err error) doctor.Finding {
	if err != nil {
		f := saw("members", doctor.Unknown, "the server does not tell its members: %v", err)
		if errors.Is(err, rpctypes.ErrPermissionDenied) {
			f.Remedy = "the role root may ask"
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
		found = append(found, because(saw("quorum", doctor.Danger, "it has no leader"),
			"no lock is granted or renewed without a majority of the members", "start the members that are down: etcdctl endpoint status --cluster"))
	}
	for _, alarm := range r.Errors {
		found = append(found, because(saw("alarm", doctor.Danger, "%s", alarm),
			"an etcd with an alarm takes no writes: no lock is granted", "etcdctl alarm list; where space is short: compact, defragment, etcdctl alarm disarm"))
	}
	if r.IsLearner {
		found = append(found, because(saw("learner", doctor.Warning, "it is a learner"),
			"a learner takes no locks", "etcdctl member promote, or take it out of the URL"))
	}
	return found
}

// etcdSpace judges how full the database is. Servers before 3.6 do not report their limit.
func etcdSpace(r *clientv3.StatusResponse) doctor.Finding {
	const mib = 1 << 20
	quota, known := r.DbSizeQuota, "which is its limit"
	if quota == 0 {
		quota, known = etcdQuota, "which is the default limit; this server does not tell its own"
	}
	full := float64(r.DbSize) / float64(quota)
	return because(saw("space", reached(full, 0.8, doctor.Warning, 0.95, doctor.Danger), "the database has %d MiB of %d MiB, %s", r.DbSize/mib, quota/mib, known),
		"an etcd that is full takes no writes: no lock is granted", "compact and defragment, or raise --quota-backend-bytes")
}

// members judges how many voting servers there are.
func members(id string, voters int) doctor.Finding {
	f := saw(id, worse(voters%2 == 0 || voters == 1, doctor.Note), "voting members: %d; of them %d may fail", voters, max(0, (voters-1)/2))
	if voters == 1 {
		return because(f, "while it is down, no lock is granted, and those that are held are lost", "three servers, on three machines")
	}
	return because(f, "one member fewer lets as many fail, and answers sooner", "an odd number of members")
}
