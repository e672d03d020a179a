package examine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// askLimit is how long one server may take for one answer.
const askLimit = 3 * time.Second

// etcdQuota is the size at which an etcd stops to take writes, by default
// (its --quota-backend-bytes).
const etcdQuota = 2 << 30

// Etcd asks the servers that client was given, and the cluster for its members.
func Etcd(client *clientv3.Client) Ask {
	return func(ctx context.Context, _ Options) (Facts, error) {
		servers := client.Endpoints()
		answers := make([]*clientv3.StatusResponse, len(servers))
		errs := make([]error, len(servers))
		var asked sync.WaitGroup
		for i, server := range servers {
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, askLimit)
				defer cancel()
				answers[i], errs[i] = client.Status(ctx, server)
			})
		}
		asked.Wait()
		if !slices.Contains(errs, nil) {
			return Facts{}, errors.Join(errs...)
		}
		facts := Facts{Deployment: "cluster"}
		for i, server := range servers {
			facts.addEtcd(server, answers[i], errs[i])
		}
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		members, err := client.MemberList(ctx)
		if err == nil && len(members.Members) == 1 {
			facts.Deployment = "standalone"
		}
		facts.Findings = append(facts.Findings, etcdMembers(members, err))
		return facts, nil
	}
}

func (f *Facts) addEtcd(server string, r *clientv3.StatusResponse, err error) {
	server = strings.TrimPrefix(strings.TrimPrefix(server, "http://"), "https://")
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

// etcdServer judges what one server said.
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

// etcdSpace judges how full the database is. Servers before 3.6 do not say their limit.
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

// etcdMembers judges how many servers may fail.
func etcdMembers(r *clientv3.MemberListResponse, err error) doctor.Finding {
	if err != nil {
		f := saw("members", doctor.Unknown, "the server does not tell its members: %v", err)
		if errors.Is(err, rpctypes.ErrPermissionDenied) {
			f.Remedy = "the role root may ask"
		}
		return f
	}
	voters := 0
	for _, m := range r.Members {
		if !m.IsLearner {
			voters++
		}
	}
	return members("members", voters)
}

// members judges how many voting servers there are.
func members(id string, voters int) doctor.Finding {
	f := saw(id, worse(voters%2 == 0 || voters == 1, doctor.Note), "voting members: %d; of them %d may fail", voters, max(0, (voters-1)/2))
	if voters == 1 {
		return because(f, "while it is down, no lock is granted, and those that are held are lost", "three servers, on three machines")
	}
	return because(f, "one member fewer lets as many fail, and answers sooner", "an odd number of members")
}
