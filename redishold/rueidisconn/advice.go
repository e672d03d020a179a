package rueidisconn

import (
	"reflect"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
)

// These are limits for the settings of a client that the program has made. The five seconds of
// Advice are the sum of two times longestDial and once longestSentinelDial.
const (
	longestSilence      = 2 * time.Second
	longestDial         = 1500 * time.Millisecond
	longestSentinelDial = 2 * time.Second
	longestRefresh      = 3 * time.Second
)

// Advice returns the client settings that make locks unreachable for longer than five
// seconds after the loss of a machine. It knows the settings for Sentinels and for a
// cluster.
func (c *Conn) Advice() []redishold.Advice {
	if o := optionOf(c.library.client); o != nil && c.end == nil {
		return advice(o, c.library.nodes != nil)
	}
	return nil
}

func advice(o *rueidis.ClientOption, cluster bool) []redishold.Advice {
	var found []redishold.Advice
	add := func(setting string, is time.Duration, better, why string) {
		text := is.String()
		if is == 0 {
			text = "not set"
		}
		found = append(found, redishold.Advice{Setting: setting, Is: text, Better: better, Why: why})
	}
	if o.ConnWriteTimeout > longestSilence {
		add("ClientOption.ConnWriteTimeout", o.ConnWriteTimeout, "1.5s", "When a machine fails, rueidis waits for this machine so long before it looks for the new master.")
	}
	if cluster {
		if o.ClusterOption.ShardsRefreshInterval == 0 && o.ConnWriteTimeout > longestSilence {
			add("ClusterOption.ShardsRefreshInterval", 0, "1s", "Without this setting, rueidis notices a new master only by calls that fail.")
		}
		return found
	}
	if o.Dialer.Timeout > longestDial {
		add("ClientOption.Dialer.Timeout", o.Dialer.Timeout, "1s", "When a machine fails, rueidis tries twice to connect to the old master, each time for so long. Meanwhile it does not follow a new master.")
	}
	if refresh := o.Sentinel.TopologyRefreshInterval; refresh == 0 || refresh > longestRefresh {
		add("SentinelOption.TopologyRefreshInterval", refresh, "2s", "Without this setting, rueidis waits for a message of one Sentinel. When a machine with the master and that Sentinel fails, rueidis never finds the new master.")
	}
	if dial := o.Sentinel.Dialer.Timeout; dial == 0 || dial > longestSentinelDial {
		add("SentinelOption.Dialer.Timeout", dial, "1s", "When a machine with the master and a Sentinel fails, rueidis waits for that Sentinel so long before it asks the next Sentinel.")
	}
	return found
}

// optionOf reads the settings of a client with Sentinels or for a cluster from a field of the
// client, because rueidis has no method for them. It returns nil for other clients, and for a
// client whose fields it does not know.
func optionOf(client rueidis.Client) *rueidis.ClientOption {
	name := map[rueidis.ClientMode]string{rueidis.ClientModeSentinel: "mOpt", rueidis.ClientModeCluster: "opt"}[client.Mode()]
	v := reflect.Indirect(reflect.ValueOf(client))
	if v.Kind() != reflect.Struct {
		return nil
	}
	option := v.FieldByName(name)
	if !option.IsValid() || option.Type() != reflect.TypeFor[*rueidis.ClientOption]() {
		return nil
	}
	return (*rueidis.ClientOption)(option.UnsafePointer())
}
