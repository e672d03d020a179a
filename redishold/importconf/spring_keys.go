package importconf

// springRows is the table of Spring's keys, in canonical form and without what they
// begin with. Those of the bundle of certificates begin with bundle.
func (r *reader) springRows() []row {
	s := &r.s
	return []row{
		{"", "url", &r.url},
		{"", "host", &r.host},
		{"", "port", &r.port},
		{"", "sentinel.nodes cluster.nodes masterreplica.nodes", &r.addrs},
		{"", "sentinel.master", &s.MasterName},
		{"", "sentinel.username", &s.SentinelUsername},
		{"", "sentinel.password", secret{&s.SentinelPassword}},
		{"", "username", &s.Username},
		{"", "password", secret{&s.Password}},
		{"", "database", &s.Database},
		{"", "clientname", &s.ClientName},
		{"", "cluster.maxredirects", &s.MaxRedirects},
		{"", "connecttimeout", limit{&s.DialTimeout, switchedOff}},
		{"", "timeout", limit{&s.Timeout, switchedOff}},
		{"", "lettuce.pool.maxactive jedis.pool.maxactive", size{&s.Pool.Size}},
		{"", "lettuce.pool.maxidle jedis.pool.maxidle", size{&s.Pool.MaxIdle}},
		{"", "lettuce.pool.minidle jedis.pool.minidle", size{&s.Pool.MinIdle}},
		{"", "lettuce.pool.maxwait jedis.pool.maxwait", limit{&s.Pool.Wait, "waiting for ever cannot be done here; the default stands"}},
		{"", "lettuce.pool.enabled", &r.lettuce}, // see poolOff
		{"", "jedis.pool.enabled", &r.jedis},
		{"", "ssl ssl.enabled", &r.encrypt},
		{"", "ssl.bundle", &r.bundle},
		{"", "bundle.truststore.certificate", &r.ca},
		{"", "bundle.keystore.certificate", &r.cert},
		{"", "bundle.keystore.privatekey", &r.private},
		{"", "bundle.options.enabledprotocols", &r.protocols},
		{"", "bundle.options.ciphers", note("Go chooses the cipher suites, and offers safe ones only")},
		{"", "bundle.keystore.privatekeypassword bundle.key.password", refusal("an encrypted key cannot be read here; decrypt the file with openssl pkey")},
		{"", "bundle.truststore.privatekey bundle.truststore.privatekeypassword bundle.truststore.type bundle.truststore.verifykeys", note("a PEM file needs none")},
		{"", "bundle.keystore.type bundle.keystore.verifykeys bundle.key.alias bundle.protocol bundle.reloadonupdate", note("a PEM file needs none")},
		{"", "clienttype", note("there is no Lettuce and no Jedis here")},
		{"", "repositories.enabled", note("it is about objects, not about locks")},
		{"", "lettuce.shutdowntimeout", note("the client closes at once")},
		{"", "lettuce.readfrom", note("nothing is read from replicas")},
		{"", "lettuce.pool.timebetweenevictionruns jedis.pool.timebetweenevictionruns", note("the client looks after its connections by itself")},
		{"", "lettuce.cluster.refresh.adaptive lettuce.cluster.refresh.period lettuce.cluster.refresh.dynamicrefreshsources", note("the client watches the cluster by itself")},
	}
}
