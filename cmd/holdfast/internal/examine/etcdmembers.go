package examine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/redishold/doctor"
)

// etcdClient is a *clientv3.Client, or the client of a test.
type etcdClient interface {
	Endpoints() []string
	Status(ctx context.Context, server string) (*clientv3.StatusResponse, error)
	MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error)
}

// etcdAnswer is the status that a server reported, or the error why there is none.
type etcdAnswer struct {
	status *clientv3.StatusResponse
	err    error
}

// askEtcd asks servers at the same time, each for askLimit at most, and returns their answers
// by their URLs. A client with TLS does not ask URLs without TLS, because it would send its
// login there.
func askEtcd(ctx context.Context, client etcdClient, servers []string) map[string]etcdAnswer {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	secure := strings.HasPrefix(client.Endpoints()[0], "https://")
	answers := make([]etcdAnswer, len(servers))
	var asked sync.WaitGroup
	for i, server := range servers {
		if secure && strings.HasPrefix(server, "http://") {
			answers[i].err = errors.New("not asked, because this URL is without TLS")
			continue
		}
		asked.Go(func() { answers[i].status, answers[i].err = client.Status(ctx, server) })
	}
	asked.Wait()
	byURL := make(map[string]etcdAnswer, len(servers))
	for i, server := range servers {
		byURL[server] = answers[i]
	}
	return byURL
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

// addEtcdMembers asks the voting members that have not answered yet, at the URLs that they
// advertise to clients. It returns how many cannot be reached. Locks do not need the other
// members, the learners.
func (f *Facts) addEtcdMembers(ctx context.Context, client etcdClient, members []*etcdserverpb.Member, asked map[string]etcdAnswer) (unreached int) {
	var others []*etcdserverpb.Member
	var urls []string
	for _, m := range members {
		if m.IsLearner || hasAnswered(m, asked) {
			continue
		}
		others = append(others, m)
		for _, url := range m.ClientURLs {
			if _, ok := asked[url]; !ok {
				urls = append(urls, url)
			}
		}
	}
	answers := askEtcd(ctx, client, urls)
	maps.Copy(answers, asked)
	for _, m := range others {
		if !f.addEtcdMember(m, answers) {
			unreached++
		}
	}
	return unreached
}

func hasAnswered(m *etcdserverpb.Member, asked map[string]etcdAnswer) bool {
	for _, a := range asked {
		if a.err == nil && a.status.Header.MemberId == m.ID {
			return true
		}
	}
	return false
}

// addEtcdMember adds the findings from the answer of m, or a finding that m cannot be
// reached. It reports whether m has answered.
func (f *Facts) addEtcdMember(m *etcdserverpb.Member, answers map[string]etcdAnswer) bool {
	var why, silent []string
	for _, url := range m.ClientURLs {
		switch a := answers[url]; {
		case a.err != nil:
			why, silent = append(why, fmt.Sprintf("%s: %v", url, a.err)), append(silent, withoutScheme(url))
		case a.status.Header.MemberId != m.ID: // it advertises localhost, for instance
			why = append(why, url+": another member answers")
		default:
			f.addEtcd(url, a.status, nil)
			return true
		}
	}
	for _, server := range silent {
		f.Servers = append(f.Servers, doctor.Server{Address: server})
	}
	found := etcdUnreached(m, why)
	found.Servers = silent
	f.Findings = append(f.Findings, found)
	return false
}

// byMember reports whether a voting member advertises a URL. If that member does not answer,
// addEtcdMember adds the finding, with its name.
func byMember(url string, members []*etcdserverpb.Member) bool {
	return slices.ContainsFunc(members, func(m *etcdserverpb.Member) bool {
		return !m.IsLearner && slices.Contains(m.ClientURLs, url)
	})
}

// etcdUnreached returns the finding of a member without an answer.
func etcdUnreached(m *etcdserverpb.Member, why []string) doctor.Finding {
	name := m.Name
	if name == "" { // it has never been started
		name = fmt.Sprintf("%x", m.ID)
	}
	if len(why) == 0 {
		why = []string{"it advertises no URL to clients"}
	}
	return because(saw("answers", doctor.Warning, "member %s cannot be reached from here: %s", name, strings.Join(why, "; ")),
		"the others may not be enough if one more fails", "start it, open the way to it, or correct its --advertise-client-urls; take a member that is gone for good out: etcdctl member remove")
}

// etcdMembers judges how many servers may fail.
func etcdMembers(all []*etcdserverpb.Member, unreached int, err error) doctor.Finding {
	if err != nil {
		f := saw("members", doctor.Unknown, "the server does not tell its members: %v", err)
		if errors.Is(err, rpctypes.ErrPermissionDenied) {
			f.Remedy = "the role root may ask"
		}
		return f
	}
	voters := 0
	for _, m := range all {
		if !m.IsLearner {
			voters++
		}
	}
	f := members("members", voters)
	if unreached > 0 {
		f.Saw += fmt.Sprintf("; not reached from here: %d", unreached)
	}
	return f
}
