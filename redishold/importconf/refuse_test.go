package importconf_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// secret is in every file below that has a password, and in no error.
const secret = "hunter2"

func TestRedissonRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                       {"# only a comment\n", "empty"},
		"no servers":                    {"threads: 16\n", "singleServerConfig"},
		"two configurations":            {"singleServerConfig:\n  address: redis://h:1\nclusterServersConfig:\n  nodeAddresses: [redis://h:1]\n", "line 3: clusterServersConfig: line 1 already has singleServerConfig"},
		"no address":                    {"singleServerConfig:\n  password: hunter2\n", "line 1: singleServerConfig: no address"},
		"empty list":                    {"clusterServersConfig:\n  nodeAddresses: []\n", "no address"},
		"several for a single":          {"singleServerConfig:\n  address: [redis://a:1, redis://b:1]\n", "line 2: singleServerConfig.address: write one address"},
		"two names for addresses":       {"clusterServersConfig:\n  nodeAddresses: [redis://a:1]\n  addresses: [redis://b:1]\n", "line 3: clusterServersConfig.addresses: line 2"},
		"no master's name":              {"\nsentinelServersConfig:\n  sentinelAddresses: [redis://a:1]\n", "line 2: sentinelServersConfig: masterName"},
		"no scheme":                     {"singleServerConfig:\n  address: h:6379\n", "line 2: singleServerConfig.address: an address begins with redis://"},
		"unknown scheme":                {"singleServerConfig:\n  address: http://h:6379\n", "begins with"},
		"no port":                       {"singleServerConfig:\n  address: redis://h\n", "no port"},
		"space in an address":           {"singleServerConfig:\n  address: redis://a b:1\n", "line 2: singleServerConfig.address: invalid host"},
		"percent in a host":             {"singleServerConfig:\n  address: redis://h%41:1\n", "line 2: singleServerConfig.address: redis URL cannot be taken apart"},
		"empty number":                  {"singleServerConfig:\n  address: redis://h:1\n  database: ''\n", "line 3: singleServerConfig.database: a number"},
		"empty time":                    {"singleServerConfig:\n  address: redis://h:1\n  timeout: ''\n", "line 3: singleServerConfig.timeout: a time"},
		"bad port":                      {"singleServerConfig:\n  address: redis://h:99999\n", "port"},
		"database in address":           {"singleServerConfig:\n  address: redis://h:6379/1\n", "the database in the address is not the one"},
		"slash in password":             {"singleServerConfig:\n  address: redis://:hunter2/x@h:6379\n", "%2F"},
		"at in password":                {"singleServerConfig:\n  address: redis://:hunter2@x@h:6379\n", "%2F"},
		"plus in password":              {"singleServerConfig:\n  address: redis://:hunter2+@h:6379\n", "%2B"},
		"password or user":              {"singleServerConfig:\n  address: redis://hunter2@h:6379\n", "versions differ"},
		"two passwords":                 {"singleServerConfig:\n  address: redis://:hunter2@h:6379\n  password: hunter2x\n", "differs from another address or key"},
		"some with TLS":                 {"clusterServersConfig:\n  nodeAddresses: [redis://a:1, rediss://b:1]\n", "some addresses ask for TLS"},
		"relative socket":               {"singleServerConfig:\n  address: redis+uds://run/redis.sock\n", "absolute"},
		"socket in a cluster":           {"clusterServersConfig:\n  nodeAddresses: ['redis+uds:///run/redis.sock']\n", "write no other address beside it"},
		"twice":                         {"singleServerConfig:\n  password: hunter2\n  address: redis://h:1\n  password: hunter2\n", "line 4: singleServerConfig.password: this key is already in line 2"},
		"merge key":                     {"a: &a {x: 1}\nsingleServerConfig:\n  <<: *a\n  address: redis://h:1\n", "merge key"},
		"unset":                         {"singleServerConfig:\n  address: redis://h:1\n  password: ${NOT_SET}\n", "line 3: singleServerConfig.password: the placeholder NOT_SET is not set"},
		"unset and empty default":       {"singleServerConfig:\n  address: redis://h:1\n  password: ${NOT_SET:-}\n", "the placeholder NOT_SET is not set"},
		"unset, two defaults":           {"singleServerConfig:\n  address: redis://h:1\n  password: ${NOT_SET:-a:-b}\n", "the placeholder NOT_SET is not set"},
		"encrypted":                     {"singleServerConfig:\n  address: redis://h:1\n  password: ENC(hunter2)\n", "line 3: singleServerConfig.password: the value is encrypted"},
		"no time":                       {"singleServerConfig:\n  address: redis://h:1\n  timeout: 3s\n", "line 3: singleServerConfig.timeout: a time"},
		"no lease":                      {"lockWatchdogTimeout: 0\nsingleServerConfig:\n  address: redis://h:1\n", "line 1: lockWatchdogTimeout: a time of more than 0"},
		"no number":                     {"singleServerConfig:\n  address: redis://h:1\n  database: -1\n", "line 3: singleServerConfig.database: a number"},
		"a list for a value":            {"singleServerConfig:\n  address: redis://h:1\n  password: [hunter2, x]\n", "one value"},
		"a mapping for a value":         {"singleServerConfig:\n  address: redis://h:1\n  password: {hunter2: x}\n", "one value"},
		"a value for a section":         {"singleServerConfig: redis://:hunter2@h:1\n", "keys with values"},
		"JKS truststore":                {"singleServerConfig:\n  address: rediss://h:1\n  sslTruststore: file:/t.jks\n  sslTruststorePassword: hunter2\n", "line 3: singleServerConfig.sslTruststore: Java's keystores"},
		"PKCS 12 keystore":              {"singleServerConfig:\n  address: rediss://h:1\n  sslKeystoreType: PKCS12\n  sslKeystore: file:/t.pem\n", "line 4: singleServerConfig.sslKeystore: Java's keystores"},
		"truststore at the top":         {"sslTruststore: file:/t.jks\nsingleServerConfig:\n  address: rediss://h:1\n", "line 1: sslTruststore: Java's keystores"},
		"class path":                    {"singleServerConfig:\n  address: rediss://h:1\n  sslTruststore: classpath:ca.pem\n", "class path"},
		"trust manager":                 {"sslTrustManagerFactory: !<a.B> {}\nsingleServerConfig:\n  address: rediss://h:1\n", "line 1: sslTrustManagerFactory: a Java class"},
		"misspelt TLS":                  {"singleServerConfig:\n  address: rediss://h:1\n  sslTrustStore: file:/ca.pem\n", "line 3: singleServerConfig.sslTrustStore: there is no such key"},
		"unknown verification":          {"singleServerConfig:\n  address: rediss://h:1\n  sslVerificationMode: SOME\n", "STRICT, CA_ONLY or NONE"},
		"second document":               {"singleServerConfig:\n  address: redis://h:1\n---\nthreads: 1\n", "line 4: a second YAML document"},
		"indentation":                   {"singleServerConfig:\n  address: redis://h:1\n password: hunter2\n", "not YAML at or near line"},
		"an alias that is a secret":     {"singleServerConfig:\n  address: redis://h:1\n  password: *hunter2\n", "not YAML"},
		"an alias of a section":         {"a: &a {address: 'redis://h:1'}\nsingleServerConfig: *a\n", "keys with values"},
		"an alias of a value":           {"a: &a x\nsingleServerConfig:\n  address: redis://h:1\n  password: *a\n", "line 4: singleServerConfig.password: write one value"},
		"two words of what is verified": {"singleServerConfig:\n  address: rediss://h:1\n  sslVerificationMode: NONE\n  sslEnableEndpointIdentification: true\n", "line 4: singleServerConfig.sslEnableEndpointIdentification: line 3 has"},
		"a secret that is a key":        {"singleServerConfig:\n  address: redis://h:1\n  hunter2#/: y\n  hunter2#/: z\n", "line 4: singleServerConfig.(not a name)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := importconf.Redisson([]byte(c.text), nil)
			refused(t, s, err, c.want)
		})
	}
}

func TestSpringRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"format":               {"application.toml", "", ".properties"},
		"nothing of Redis":     {"a.properties", "server.port=1\nspring.reddis.host=h\n", "no key begins with spring.data.redis or spring.redis"},
		"twice":                {"a.properties", "spring.redis.host=a\nspring.redis.port=1\nspring.redis.HOST=b\n", "line 3: spring.redis.HOST: this key is already in line 1"},
		"twice in YAML":        {"a.yaml", "spring:\n  redis: {host: a}\nspring.redis.host: b\n", "line 3: spring.redis.host: this key is already in line 2"},
		"bad escape":           {"a.properties", "spring.redis.host=h\nspring.redis.password=hunter2\\u00\n", "line 2: this is not a property"},
		"encoding":             {"a.properties", "spring.redis.password=hunter2ä\n", "line 1: spring.redis.password: write characters"},
		"retyped":              {"a.yaml", "spring.redis.password: 0123\n", "line 1: spring.redis.password: Spring may change this value"},
		"retyped date":         {"a.yml", "spring.redis.password: 2024-01-02\n", "Spring may change this value"},
		"unset":                {"a.properties", "spring.redis.password=${NOT_SET}\n", "line 1: spring.redis.password: the placeholder NOT_SET is not set"},
		"nested placeholders":  {"a.properties", "spring.redis.password=${NOT_SET:${NOR_THIS:hunter2}}\n", "line 1: spring.redis.password: holdfast reads no placeholder inside another placeholder"},
		"placeholder's quote":  {"a.properties", "spring.redis.password=\\\\${a:hunter2}\n", "line 1: spring.redis.password: holdfast reads no placeholder inside another placeholder"},
		"circle":               {"a.properties", "spring.redis.password=${a}\na=${b}\nb=${a}\n", "line 1: spring.redis.password: holdfast reads no placeholder inside another placeholder"},
		"encrypted":            {"a.properties", "spring.redis.password=ENC(hunter2)\n", "encrypted"},
		"encrypted by cloud":   {"a.properties", "spring.redis.sentinel.nodes=a:1\nspring.redis.sentinel.master=m\nspring.redis.sentinel.password={cipher}hunter2\n", "line 3: spring.redis.sentinel.password: the value is encrypted"},
		"sentinel and cluster": {"a.properties", "spring.redis.sentinel.nodes=a:1\nspring.redis.cluster.nodes=b:1\n", "spring.redis.cluster.nodes: line 1 has"},
		"no Sentinels":         {"a.properties", "spring.redis.sentinel.master=m\n", "line 1: spring.redis.sentinel.master: sentinel.nodes is missing"},
		"no master":            {"a.properties", "spring.redis.sentinel.nodes=a:1\n", "in Spring sentinel.master"},
		"node without port":    {"a.properties", "spring.redis.cluster.nodes=a:1,b\n", "no port"},
		"no node":              {"a.yaml", "spring.redis.cluster.nodes: []\n", "line 1: spring.redis.cluster.nodes: no address"},
		"url and nodes":        {"a.properties", "spring.redis.url=redis://:hunter2@h:1\nspring.redis.cluster.nodes=a:1\n", "line 1: spring.redis.url"},
		"bad url":              {"a.properties", "spring.redis.url=redis://:hunter2/@h:1\n", "%2F"},
		"bad database in url":  {"a.properties", "spring.redis.url=redis://:hunter2@h:1/x\n", "line 1: spring.redis.url: the database in the address is not the one"},
		"database in url only": {"a.properties", "spring.data.redis.url=redis://:hunter2@h:1/3\n", "line 1: spring.data.redis.url: the database in the address"},
		"database beside url":  {"a.properties", "spring.redis.url=redis://h:1\nspring.redis.database=3\n", "the database in the address is not the one in the key database"},
		"two databases":        {"a.properties", "spring.redis.url=redis://h:1/2\nspring.redis.database=3\n", "the database in the address is not the one in the key database"},
		"password in braces":   {"a.yaml", "spring:\n  data.redis:\n    password: {hunter2}\n", "line 3: spring.data.redis.password: write one value here; put a value with special characters in quotes"},
		"braces of Sentinels":  {"a.yaml", "spring.redis: {sentinel: {nodes: 'a:1', master: m, password: {hunter2: x}}}\n", "line 1: spring.redis.sentinel.password: write one value"},
		"profile":              {"a.yaml", "---\nspring.redis.password: {hunter2}\nspring:\n  config.activate.on-profile: prod\n", "line 4: spring.config.activate.on-profile: the document is for a profile"},
		"url in braces":        {"a.yaml", "spring.redis.url: {hunter2}\n", "line 1: spring.redis.url: write one value"},
		"bad host":             {"a.properties", "spring.redis.host=hunter2@h\n", "line 1: spring.redis.host: versions differ on whether"},
		"space in a host":      {"a.properties", "spring.redis.host=a b\n", "line 1: spring.redis.host: invalid host"},
		"bad port":             {"a.properties", "spring.redis.port=70000\n", "line 1: spring.redis.port: the port"},
		"time":                 {"a.properties", "spring.redis.timeout=3 s\n", "line 1: spring.redis.timeout: a time"},
		"no port in a url":     {"a.properties", "spring.redis.url=redis://h\n", "line 1: spring.redis.url: the address has no port"},
		"password or user":     {"a.properties", "spring.redis.url=redis://hunter2@h:1\n", "line 1: spring.redis.url: versions differ on whether"},
		"alias":                {"a.yaml", "a: &a {nodes: 'a:1'}\nspring:\n  redis:\n    cluster: *a\n", "line 4: spring.redis.cluster: holdfast does not read an alias"},
		"switch":               {"a.properties", "spring.redis.ssl=maybe\n", "true or false"},
		"misspelt TLS":         {"a.properties", "spring.data.redis.ssl.enable=true\n", "line 1: spring.data.redis.ssl.enable: there is no such key"},
		"another file":         {"a.properties", "spring.redis.redisson.file=classpath:redisson.yaml\n", "line 1: spring.redis.redisson.file: Redisson uses the connection settings of this key"},
		"config as mapping":    {"a.yaml", "spring.redis.redisson.config:\n  singleServerConfig: {address: 'redis://h:1'}\n", "line 2: spring.redis.redisson.config.singleServerConfig.address: Redisson uses the connection settings of this key"},
		"bad config":           {"a.yaml", "spring.redis.redisson.config: |\n  singleServerConfig:\n    password: hunter2\n", "line 1: spring.redis.redisson.config: Redisson uses the connection settings of this key"},
		"Redisson alone":       {"a.yaml", "redisson:\n  config: |\n    singleServerConfig: {password: hunter2}\n", "line 2: redisson.config: Redisson uses the connection settings of this key"},
		"placeholder's name":   {"a.properties", "spring.redis.password=${(hunter2)}\n", "line 1: spring.redis.password: the placeholder (not a name) is not set"},
		"list of keys":         {"a.properties", "spring.redis.cluster.nodes[1]=a:1\n", "line 1: spring.redis.cluster.nodes[1]: holdfast does not read keys such as name[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := importconf.Spring([]byte(c.text), c.file, nil)
			refused(t, s, err, c.want)
		})
	}
}

func refused(t *testing.T, s *importconf.Settings, err error, want string) {
	t.Helper()
	switch {
	case err == nil:
		t.Fatalf("got %v, want an error with %q", s, want)
	case s != nil:
		t.Errorf("got settings besides the error")
	case !strings.Contains(err.Error(), want):
		t.Errorf("got error %q, want one with %q", err, want)
	case strings.Contains(err.Error(), secret):
		t.Errorf("error %q shows the password", err)
	}
}
