package demo

import (
	"cmp"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// CheckURL returns an error if raw is not the URL of a single Redis server. The demo has keys
// of its own, which would be in several slots of a cluster.
func CheckURL(raw string) error {
	u, hosts, err := redisurl.Parse(raw)
	if err != nil {
		return err
	}
	if strings.ContainsAny(u.Scheme, "+-") || strings.Contains(hosts, ",") || u.Query().Has("addr") {
		return errors.New("the demo wants one server: use redis://host:6379")
	}
	return nil
}

// redisCLI returns the redis-cli command line for a Redis, without the password:
// --askpass asks for it.
func redisCLI(a access.Access) string {
	u, _, err := redisurl.Parse(a.URL)
	if err != nil {
		return "redis-cli"
	}
	args := []string{"redis-cli"}
	switch u.Scheme {
	case "redis", "rediss", "valkey", "valkeys":
		if host := u.Hostname(); host != "" && host != "127.0.0.1" && host != "localhost" {
			args = append(args, "-h", host)
		}
		if port := u.Port(); port != "" {
			args = append(args, "-p", port)
		}
		if u.Scheme == "rediss" || u.Scheme == "valkeys" {
			args = append(args, "--tls")
		}
		if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
			args = append(args, "-n", db)
		}
	case "unix":
		args = append(args, "-s", u.Path)
	}
	for _, flag := range [][2]string{
		{"--user", cmp.Or(a.Username, u.User.Username())}, {"--cacert", a.CACert}, {"--cert", a.Cert}, {"--key", a.Key}, {"--sni", a.ServerName},
	} {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	if a.Insecure {
		args = append(args, "--insecure")
	}
	if _, ok := u.User.Password(); ok || a.Password != "" {
		args = append(args, "--askpass")
	}
	return strings.Join(args, " ")
}
