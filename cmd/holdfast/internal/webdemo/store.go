package webdemo

import (
	"context"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standin"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// store is one Redis, as one client sees it.
type store struct {
	*redishold.Backend
	conn  *rueidisconn.Conn
	cable *cable
}

// openStore connects through a cable of its own.
func openStore(ctx context.Context, a access.Access) (*store, error) {
	config, err := a.TLS()
	if err != nil {
		return nil, err
	}
	c := &cable{}
	conn, err := rueidisconn.Open(ctx, a.URL, &rueidisconn.Options{
		Username: a.Username, Password: a.Password, TLS: config, Dial: c.dial, ClientName: "holdfast-demo",
	})
	if err != nil {
		return nil, err
	}
	return &store{Backend: redishold.New(conn, &redishold.Options{KeyPrefix: prefix}), conn: conn, cable: c}, nil
}

func (s *store) close() { s.conn.Close() }

// run runs one script.
func (s *store) run(ctx context.Context, script *redishold.Script, keys []string, args ...string) (any, error) {
	r := s.conn.Do(ctx, redishold.Call{Script: script, Keys: keys, Args: args})[0]
	return r.Value, r.Err
}

// place is where a store is.
type place struct {
	access  access.Access
	Name    string // without the password
	StandIn bool
}

// places are the stores of the demo: where the locks are, and what is raced for.
type places struct {
	lock    place
	race    []place
	servers []*standin.Server
}

// find starts the stand-ins that are needed.
func find(given []access.Access) (p places, err error) {
	for _, a := range given {
		p.race = append(p.race, place{access: a, Name: redisurl.Redacted(a.URL)})
	}
	if len(given) == 1 {
		p.lock, p.race = p.race[0], nil
	}
	for len(p.race) < 3 {
		server, err := standin.Start()
		if err != nil {
			p.close()
			return p, err
		}
		p.servers = append(p.servers, server)
		p.race = append(p.race, place{access: access.Access{URL: server.URL()}, Name: server.URL(), StandIn: true})
	}
	if len(given) != 1 {
		p.lock = p.race[0]
	}
	return p, nil
}

func (p places) close() {
	for _, s := range p.servers {
		s.Close()
	}
}

// flags returns what another server has to be given to share everything. A
// password is left out.
func (p places) flags() string {
	text := ""
	for i, at := range p.race {
		if i == 0 && p.lock.Name != at.Name {
			return " --url " + p.lock.Name
		}
		text += " --url " + at.Name
	}
	return text
}
