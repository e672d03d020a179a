package cli

import (
	"strings"
	"testing"
)

// What is wrong with several servers is said at once; what they do is in
// TestCLIOnSeveralServers.
func TestSeveralServersUsage(t *testing.T) {
	s, locked := newSite(t), newSite(t)
	locked.server.RequireAuth("s3cret")
	list := configure(t, "holdfast.yaml", "redlock: ["+strings.Join([]string{s.url, s.url, s.url}, ", ")+"]")
	for name, test := range map[string]struct {
		args   string
		status int
		want   string
	}{
		"even":             {"run -u " + s.url + " -u " + s.url + " job -- true", 64, "an even number"},
		"no URL":           {"run -u " + s.url + " -u here -u there job -- true", 64, "--url is neither a URL nor HOST:PORT"},
		"where one is all": {"ls -u " + s.url + " -u " + s.url, 64, "only run, hold and elect"},
		"listed":           {"ls --config " + list, 64, "line 1: redlock: only run, hold and elect"},
		"no password":      {"hold -u " + s.url + " -u " + locked.url + " -u " + s.url + " job", 77, locked.url + ": "},
		"a kind of lock":   {"run --fair -u " + s.url + " -u " + s.url + " -u " + s.url + " job -- true", 125, "quorum has no fair locks"},
	} {
		t.Run(name, func(t *testing.T) {
			call(t, bare(), strings.Fields(test.args)...).want(t, test.status, test.want)
		})
	}
}

func TestPasswordOfSeveralServersIsWarnedOfOnce(t *testing.T) {
	url := strings.Replace(newSite(t).url, "://", "://:s3cret@", 1)
	got := call(t, bare(), "run", "-u", url, "-u", url, "job", "--", "true")
	got.want(t, 64, "can read the password in --url")
	if n := strings.Count(got.stderr, "can read the password"); n != 1 || strings.Contains(got.stderr, "s3cret") {
		t.Errorf("got %d warnings in %s", n, got.stderr)
	}
}

// The servers of the list get the password that the configuration has for them.
// The stand-ins do not tell their run id, which comes after the password.
func TestPasswordOfListedServers(t *testing.T) {
	var urls []string
	for range 3 {
		s := newSite(t)
		s.server.RequireAuth("s3cret")
		urls = append(urls, s.url)
	}
	list := "redlock: [" + strings.Join(urls, ", ") + "]\n"
	args := []string{"run", "-n", "job", "--", "true"}
	file := configure(t, "holdfast.yaml", list)
	call(t, bare("HOLDFAST_CONFIG="+file), args...).want(t, 77, "NOAUTH")
	file = configure(t, "holdfast.yaml", list+"redis: {password: s3cret}")
	got := call(t, bare("HOLDFAST_CONFIG="+file), args...)
	if strings.Contains(got.stderr, "NOAUTH") || !strings.Contains(got.stderr, "run id") {
		t.Errorf("got status %d, stderr %s", got.code, got.stderr)
	}
}
