package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/answers"
	"github.com/holdfast-go/holdfast/internal/answers/answerstest"
)

// Each error reply has the meaning that docs/answers.md says, for a script and for the login.
func TestTableOfAnswers(t *testing.T) {
	for _, r := range answerstest.Rows(t, "../../..", "Redis and Valkey") {
		reply := &ReplyError{Text: r.Answer}
		if got := answerstest.MeaningOf(Classify("redis refuses it", reply)); got != r.Meaning {
			t.Errorf("%s: got %s, want %s", r.Answer, got, r.Meaning)
		}
		if got := answerstest.MeaningOf(ClassifyLogin(reply)); got != r.Meaning {
			t.Errorf("the login, %s: got %s, want %s", r.Answer, got, r.Meaning)
		}
	}
	other := &ReplyError{Text: "ERR invalid password"}
	if got := answerstest.MeaningOf(Classify("redis refuses it", other)); got != answers.Refused {
		t.Errorf("any other reply: got %s, want refused", got)
	}
	if got := answerstest.MeaningOf(ClassifyLogin(other)); got != answers.Denied {
		t.Errorf("any other reply to the login: got %s, want denied", got)
	}
}

// What proxies and services say of a command that they do not have.
func TestMeaningOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]meaning{
			"ERR unknown command 'CLIENT', with args beginning with: 'SETNAME' 'x' ": MeansNoCommand, // Redis
			"ERR unknown command `INFO`, with args beginning with: ":                 MeansNoCommand, // Redis 5, Dragonfly
			"unknown command 'INFO'": MeansNoCommand, // Envoy, and rueidis without the code
			"ERR Unknown Redis command called from script script: 0825, on @user_script:7.":        MeansNoCommand,
			"ERR Error running script (call to f_1): @user_script:7: Unknown Redis command called": MeansNoCommand, // Redis 6.2
			"ERR unsupported command 'CLIENT'":                                                     MeansNoCommand,
			"ERR command 'CONFIG' not support for normal user":                                     MeansNoCommand,
			"ERR handle request, command 'CONFIG' is not allowed":                                  MeansNoCommand, // Codis
			"NOPERM this user has no permissions to run the 'client|setname' command":              MeansNoRight,
			"ERR wrong number of arguments for 'auth' command":                                     MeansUnknown,
			"ERR This Redis command is not allowed from script script: 0825, on @user_script:1.":   MeansUnknown,
			"ERR The user executing the script can't run this command or subcommand script: 0825":  MeansNoRightInside,
			"ERR SELECT is not allowed in cluster mode":                                            MeansNoDatabase,
			"ERR AUTH <password> called without any password configured for the default user.":     MeansUnknown,
			"ERR max number of clients reached":                                                    MeansLater,
		} {
			if got := MeaningOf(text); got != want {
				t.Errorf("%s: got %d, want %d", text, got, want)
			}
		}
	})
}

// A lease must not end early, and a TTL of 0 would delete the key.
func TestMSRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1", -time.Second: "1", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", 1500*time.Millisecond + 1: "1501", time.Minute: "60000",
	} {
		if got := MS(d); got != want {
			t.Errorf("%v: got %s ms, want %s", d, got, want)
		}
	}
}
