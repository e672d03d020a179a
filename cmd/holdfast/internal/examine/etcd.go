package examine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// askLimit is how long one server may take for an answer.
const askLimit = 3 * time.Second

// etcdQuota is the size of the database from which on an etcd refuses writes, by default (its
// --quota-backend-bytes).
const etcdQuota = 2 << 30

// Etcd returns the Ask for an etcd. It asks the servers of client for their status and for
// the list of members, and then the members that have not answered.
func Etcd(client etcdClient) Ask {
	return func(ctx context.Context, _ Options) (Facts, error) {
		servers := client.Endpoints()
		asked := askEtcd(ctx, client, servers)
		var errs []error
		for _, server := range servers {
			errs = append(errs, asked[server].err)
		}
		if !slices.Contains(errs, nil) {
			return Facts{}, errors.Join(errs...)
		}
		members, err := listEtcd(ctx, client)
		facts := Facts{Deployment: "cluster"}
		if len(members) == 1 {
			facts.Deployment = "standalone"
		}
		for i, server := range servers {
			if errs[i] == nil || !byMember(server, members) {
				facts.addEtcd(server, asked[server].status, errs[i])
			}
		}
		unreached := facts.addEtcdMembers(ctx, client, members, asked)
		facts.Findings = append(facts.Findings, etcdMembers(members, unreached, err))
		return facts, nil
	}
}

func (f *Facts) addEtcd(server string, r *clientv3.StatusResponse, err error) {
	server = withoutScheme(server)
	if err != nil {
		f.Servers = append(f.Servers, doctor.Server{Address: server})
		f.Findings = append(f.Findings, at(server, noAnswer(err))...)
		return
	}
	role := "follower"
	switch {
	case r.IsLearner:
		role = "learner"
	case r.Leader == r.Header.MemberId:
		role = "leader"
	}
	f.Servers = append(f.Servers, doctor.Server{Address: server, Version: "etcd " + r.Version, Role: role})
	f.Findings = append(f.Findings, at(server, etcdServer(r)...)...)
}

func withoutScheme(server string) string {
	return strings.TrimPrefix(strings.TrimPrefix(server, "http://"), "https://")
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
	return because(saw("space", above(full, 0.8, 0.95), "the database has %d MiB of %d MiB, %s", r.DbSize/mib, quota/mib, known),
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
