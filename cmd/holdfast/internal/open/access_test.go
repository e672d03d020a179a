package open

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

func TestTLS(t *testing.T) {
	for _, a := range []Access{{}, {Imported: &importconf.Settings{}}} {
		if config, err := a.TLS(); config != nil || err != nil {
			t.Errorf("got %v, %v of what asks for no TLS", config, err)
		}
	}
	imported := &importconf.Settings{TLS: importconf.TLS{Enabled: true, MinVersion: tls.VersionTLS13}}
	config, err := Access{Imported: imported}.TLS()
	if err != nil || config.MinVersion != tls.VersionTLS13 || config.InsecureSkipVerify {
		t.Errorf("got %v, %v, want what was imported", config, err)
	}
	config, err = Access{Imported: imported, ServerName: "n", Insecure: true}.TLS()
	if err != nil || config.ServerName != "n" || !config.InsecureSkipVerify {
		t.Errorf("got %v, %v, want what the flags say", config, err)
	}
	for want, a := range map[string]Access{
		"belong together": {Cert: "c.pem"},
		"absent.pem":      {CACert: "absent.pem"},
		"k.pem":           {Cert: "access_test.go", Key: "k.pem"},
	} {
		if config, err := a.TLS(); err == nil || config != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", config, err, want)
		}
	}
}
