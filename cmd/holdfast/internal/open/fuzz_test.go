package open

import (
	"maps"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Whatever stands in a URL of PostgreSQL reaches pgx as pgx reads it, or is refused.
func FuzzPostgresURL(f *testing.F) {
	for _, seed := range [][4]string{
		{"u", "p", "d", "application_name=my%20app"},
		{"u", "a+b", "d", "application_name=a+b"},
		{"a%40b", "p%2Fq%3F", "d%20e", "application_name=100%25"},
		{"ü", "%F0%9F%94%92", "Ω", "options=-c%20search_path%3Da%2Cb&application_name=''"},
		{"u", "", "", "application_name=%22x%22&pool_max_conns=7"},
		{"u", "p", "d+e", "search_path=a%2Bb&application_name=%27"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, user, password, name, query string) {
		url := "postgres://" + user + ":" + password + "@h:1/" + name + "?sslmode=disable&passfile=/absent&" + query
		want, err := pgxpool.ParseConfig(url)
		if err != nil {
			return
		}
		p, err := parsePostgres(at(url))
		if err != nil {
			return // more is refused than pgx does, as parameters that stand twice
		}
		is, was := p.config.ConnConfig, want.ConnConfig
		params := maps.Clone(was.RuntimeParams)
		if params["application_name"] == "" {
			params["application_name"] = "holdfast"
		}
		for _, ours := range []string{"layout", "table", "create", "listen"} {
			if _, passed := is.RuntimeParams[ours]; !passed { // pgx takes " table" for one of its own
				delete(params, ours)
			}
		}
		if is.User != was.User || is.Password != was.Password || is.Database != was.Database || is.Host != was.Host || is.Port != was.Port || !maps.Equal(is.RuntimeParams, params) || p.config.MaxConns != want.MaxConns {
			t.Errorf("%s: got %s:%s@%s:%d/%s %q, want %s:%s@%s:%d/%s %q", url, is.User, is.Password, is.Host, is.Port, is.Database, is.RuntimeParams, was.User, was.Password, was.Host, was.Port, was.Database, params)
		}
	})
}

// A plus, a percent sign and a space are what they are.
func TestParametersAsTheyAreWritten(t *testing.T) {
	d, err := parseMySQL(at("mysql://a+b:c+d@/d?socket=/run/my+sql%20100%25.sock&table=a+b"))
	if err != nil || d.addrs[0] != "/run/my+sql 100%.sock" || d.options.Table != "a+b" || d.config.User != "a+b" || d.config.Passwd != "c+d" {
		t.Errorf("got %+v, %v", d, err)
	}
	e, err := parseEtcd(at("etcd://a+b:c%20d%25@h"))
	if err != nil || e.config.Username != "a+b" || e.config.Password != "c d%" {
		t.Errorf("got %s:%s, %v", e.config.Username, e.config.Password, err)
	}
	z, err := parseZooKeeper(at("zk://a+b:c%20d%25@h/a+b/c%20d"))
	if err != nil || z.options.Auth[0].Auth != "a+b:c d%" || z.options.Root != "/a+b/c d" {
		t.Errorf("got %+v, %v", z, err)
	}
}
