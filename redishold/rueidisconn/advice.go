package rueidisconn

import (
	"reflect"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
)

// These are limits for the settings of a client that the program has made. rueidis asks the
// Sentinels one after the other, also the Sentinel of a lost machine. If a Sentinel still names
// the old master, rueidis dials that master twice, and does not learn of a new one meanwhile.
// The five seconds of Advice are the sum of two times longestDial and once longestSentinelDial.
const (
	longestSilence      = 2 * time.Second
	longestDial         = 1500 * time.Millisecond
	longestSentinelDial = 2 * time.Second
)

// Advice returns the client settings that make locks unreachable for longer than five
// seconds after the loss of a machine. It knows the settings for Sentinels and for a
// cluster.
func (c *Conn) Advice() []redishold.Advice {
	if o, ok := settingsOf(c.library.client); ok && c.end == nil {
		return o.advice()
	}
	return nil
}

// settings are the settings of a client that matter when a machine is lost.
type settings struct {
	mode                        rueidis.ClientMode
	silence, dial, sentinelDial time.Duration
	refresh                     time.Duration // interval at which rueidis asks the Sentinels for the master, or a cluster for the slots
}

func (o settings) advice() []redishold.Advice {
	var found []redishold.Advice
	add := func(bad bool, setting string, is time.Duration, better, why string) {
		text := is.String()
		if is == 0 {
			text = "not set"
		}
		if bad {
			found = append(found, redishold.Advice{Setting: setting, Is: text, Better: better, Why: why})
		}
	}
	const (
		silent = "When a machine fails, rueidis waits for this machine so long before it looks for the new master."
		unseen = "Without this setting, rueidis waits for a message of one Sentinel. When a machine with the master and that Sentinel fails, rueidis never finds the new master."
		slots  = "Without this setting, rueidis notices a new master only by calls that fail."
		twice  = "When a machine fails, rueidis tries twice to connect to the old master, each time for so long. Meanwhile it does not follow a new master."
		asked  = "When a machine with the master and a Sentinel fails, rueidis waits for that Sentinel so long before it asks the next Sentinel."
	)
	add(o.silence > longestSilence, "ClientOption.ConnWriteTimeout", o.silence, "1.5s", silent)
	if o.mode == rueidis.ClientModeCluster {
		add(o.refresh == 0 && o.silence > longestSilence, "ClusterOption.ShardsRefreshInterval", o.refresh, "1s", slots)
		return found
	}
	add(o.dial > longestDial, "ClientOption.Dialer.Timeout", o.dial, "1s", twice)
	add(o.refresh == 0 || o.refresh > 3*time.Second, "SentinelOption.TopologyRefreshInterval", o.refresh, "2s", unseen)
	add(o.sentinelDial == 0 || o.sentinelDial > longestSentinelDial, "SentinelOption.Dialer.Timeout", o.sentinelDial, "1s", asked)
	return found
}

// settingsOf reads the settings of a client from its fields, because rueidis has no method
// for them. It returns false for a client whose fields it does not know.
func settingsOf(client rueidis.Client) (settings, bool) {
	mode := client.Mode()
	name := map[rueidis.ClientMode]string{rueidis.ClientModeSentinel: "mOpt", rueidis.ClientModeCluster: "opt"}[mode]
	option, ok := field(reflect.ValueOf(client), name)
	known := func(path ...string) time.Duration {
		v, found := field(option, path...)
		if !found || !v.CanInt() {
			ok = false
			return 0
		}
		return time.Duration(v.Int())
	}
	o := settings{mode: mode, silence: known("ConnWriteTimeout"), dial: known("Dialer", "Timeout")}
	if mode == rueidis.ClientModeCluster {
		o.refresh = known("ClusterOption", "ShardsRefreshInterval")
	} else {
		o.refresh = known("Sentinel", "TopologyRefreshInterval")
		o.sentinelDial = known("Sentinel", "Dialer", "Timeout")
	}
	return o, ok
}

// field returns the value at a path of field names, through pointers and interfaces.
func field(v reflect.Value, path ...string) (reflect.Value, bool) {
	for _, name := range path {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return reflect.Value{}, false
		}
		v = v.FieldByName(name)
	}
	return v, v.IsValid()
}
