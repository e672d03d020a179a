package demo

import (
	"fmt"
	"net/url"
	"strings"
)

// redis returns the URL to use and how to show it: without its password.
func (o *Options) redis() (use, show string, err error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		// url's own error repeats the URL, and with it the password.
		return "", "", fmt.Errorf("the Redis URL cannot be parsed")
	}
	return o.URL, u.Redacted(), nil
}

// redisCLI returns the redis-cli command line for a URL, without its password:
// --askpass asks for it.
func redisCLI(raw string) string {
	u, err := url.Parse(raw)
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
	if user := u.User.Username(); user != "" {
		args = append(args, "--user", user)
	}
	if _, ok := u.User.Password(); ok {
		args = append(args, "--askpass")
	}
	return strings.Join(args, " ")
}
