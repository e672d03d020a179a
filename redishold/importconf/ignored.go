package importconf

import "slices"

// place is a part of a file of Java, or several parts.
type place uint8

const (
	atTop      place = 1 << iota // the top of a file of Redisson
	inServers                    // the section of the servers in such a file
	withoutTLS                   // both, if no address asks for TLS
	inSpring                     // the keys for Redis in a file of Spring
)

// ignoredKeys are keys that Holdfast does not use, for one reason.
type ignoredKeys struct {
	at   place
	keys []string
	why  string // why they are ignored

	// harmless is the only value, or the only Java class, with which the keys can be ignored
	// without harm. It is "" if every value can be ignored.
	harmless  string
	otherwise string // what to do about another value or class
}

func allIgnored() []ignoredKeys {
	return slices.Concat(ignoredWithDefault(), ignoredAtTop(), ignoredOfServers(), ignoredOfSockets(), ignoredOfSpring())
}

// ignoredWithDefault are keys of Redisson that change the locks or the servers, unless they have
// their default.
func ignoredWithDefault() []ignoredKeys {
	return []ignoredKeys{
		{
			at:        atTop | inServers,
			keys:      []string{"nameMapper"},
			why:       "it changes no name",
			harmless:  "org.redisson.config.DefaultNameMapper",
			otherwise: "a Java class cannot be run here: if it puts something before each name, set redishold.Options.KeyPrefix to that, else the locks of Java have other keys",
		},
		{
			at:        atTop | inServers,
			keys:      []string{"commandMapper"},
			why:       "it changes no command",
			harmless:  "org.redisson.config.DefaultCommandMapper",
			otherwise: "a Java class cannot be run here, and commands cannot be renamed",
		},
		{
			at:        atTop | inServers,
			keys:      []string{"credentialsResolver"},
			why:       "it gives no credentials",
			harmless:  "org.redisson.config.DefaultCredentialsResolver",
			otherwise: "a Java class cannot be run here: set Username and Password",
		},
		{
			at:        atTop | inServers,
			keys:      []string{"natMapper", "natMap"},
			why:       "it changes no address",
			harmless:  "org.redisson.config.DefaultNatMapper",
			otherwise: "servers' own addresses are used unchanged: map them with rueidisconn.Options.Dial, or the Dialer of go-redis",
		},
		{
			at:        atTop,
			keys:      []string{"checkLockSyncedSlaves"},
			why:       "no replica has to acknowledge a lock, unless redishold.Options.Replicas says so",
			harmless:  "false",
			otherwise: "whether replicas must acknowledge a lock is redishold.Options.Replicas, or --replicas: set it",
		},
	}
}

// ignoredAtTop are keys at the top of a file of Redisson.
func ignoredAtTop() []ignoredKeys {
	return []ignoredKeys{
		{
			at:   atTop,
			keys: []string{"slavesSyncTimeout"},
			why:  "whether replicas must acknowledge a lock is redishold.Options.Replicas; how long they may take follows from the TTL and the context",
		},
		{
			at: atTop,
			keys: []string{
				"threads", "executor", "nettyThreads", "nettyExecutor", "eventLoopGroup", "transportMode", "useLinuxNativeEpoll",
				"nettyHook", "addressResolverGroupFactory", "useThreadClassLoader", "decodeInExecutor",
			},
			why: "it is about the threads and sockets of Java",
		},
		{
			at: atTop,
			keys: []string{
				"codec", "keepPubSubOrder", "reliableTopicWatchdogTimeout", "minCleanUpDelay", "maxCleanUpDelay", "cleanUpKeysAmount",
				"valkeyCapabilities", "codecProvider", "resolverProvider", "redissonReferenceEnabled", "referenceEnabled",
				"referenceCodecProvider", "protocol", "registrationKey", "monitoring",
			},
			why: "locks do not use it",
		},
		{
			at:   atTop,
			keys: []string{"lockWatchdogBatchSize", "useScriptCache"},
			why:  "renewals that are due together travel together, and the server caches scripts, without a setting",
		},
		{
			at:   atTop,
			keys: []string{"connectionListener", "lazyInitialization"},
			why:  "rueidisconn.Open connects at once, go-redis at the first call; holdfast.Options.Observe reports events of locks",
		},
	}
}

// ignoredOfServers are keys in the section of the servers of a file of Redisson.
func ignoredOfServers() []ignoredKeys {
	return []ignoredKeys{
		{
			at:   inServers,
			keys: []string{"retryAttempts", "retryInterval", "retryDelay"},
			why:  "Holdfast tries again by itself where that is safe, until the context ends",
		},
		{
			at: inServers,
			keys: []string{
				"subscriptionsPerConnection", "subscriptionTimeout", "subscriptionMode", "shardedSubscriptionMode",
				"subscriptionConnectionPoolSize", "subscriptionConnectionMinimumIdleSize",
				"slaveSubscriptionConnectionPoolSize", "slaveSubscriptionConnectionMinimumIdleSize",
			},
			why: "subscriptions need no setting: one connection for each server, and in a cluster both kinds of channels",
		},
		{
			at: inServers,
			keys: []string{
				"readMode", "loadBalancer", "slaveAddresses", "slaveConnectionPoolSize", "slaveConnectionMinimumIdleSize",
				"failedSlaveReconnectionInterval", "failedSlaveCheckInterval", "failedSlaveNodeDetector", "slaveFailsInterval",
				"fallbackLoadingToMaster", "checkMasterLinkStatus",
			},
			why: "nothing is read from replicas",
		},
		{
			at:   inServers,
			keys: []string{"scanInterval"},
			why:  "rueidisconn and go-redis watch Sentinels and clusters by themselves; of replicated servers nobody watches which one is the master",
		},
		{
			at: inServers,
			keys: []string{
				"idleConnectionTimeout", "pingConnectionInterval", "pingTimeout", "reconnectionTimeout", "reconnectionDelay", "failedAttempts",
				"credentialsReapplyInterval", "dnsMonitoring", "dnsMonitoringInterval", "dnsMonitoringTimes", "monitorIPChanges",
				"checkSentinelsList", "checkSlaveStatusWithSyncing", "sentinelsDiscovery", "checkSlotsCoverage",
			},
			why: "the client looks after its connections by itself",
		},
	}
}

// ignoredOfSockets are keys of Redisson about TLS and sockets.
func ignoredOfSockets() []ignoredKeys {
	return []ignoredKeys{
		{
			at: withoutTLS,
			keys: []string{
				"sslVerificationMode", "sslEnableEndpointIdentification", "sslKeystoreType", "sslTruststore", "sslKeystore", "sslProtocols",
				"sslTruststorePassword", "sslKeystorePassword", "sslTrustManagerFactory", "sslKeyManagerFactory",
			},
			why: "no address asks for TLS; rediss:// would",
		},
		{
			at:   atTop | inServers,
			keys: []string{"sslTruststorePassword", "sslKeystorePassword"},
			why:  "a PEM file needs none",
		},
		{
			at:   atTop | inServers,
			keys: []string{"sslProvider", "sslCiphers"},
			why:  "there is one TLS here, that of Go, which offers safe cipher suites only",
		},
		{
			at: atTop | inServers,
			keys: []string{
				"tcpKeepAlive", "keepAlive", "tcpKeepAliveCount", "tcpKeepAliveIdle", "tcpKeepAliveInterval", "tcpUserTimeout", "tcpNoDelay",
			},
			why: "the client sets its sockets by itself",
		},
	}
}

// ignoredOfSpring are keys of Spring for Redis, without their prefix.
func ignoredOfSpring() []ignoredKeys {
	return []ignoredKeys{
		{
			at: inSpring,
			keys: []string{
				"clienttype", "repositories.enabled", "lettuce.shutdowntimeout", "lettuce.readfrom",
				"lettuce.pool.timebetweenevictionruns", "jedis.pool.timebetweenevictionruns",
				"lettuce.cluster.refresh.adaptive", "lettuce.cluster.refresh.period", "lettuce.cluster.refresh.dynamicrefreshsources",
			},
			why: "it is about the clients of Java, and locks do not use it",
		},
		{
			at:        inSpring,
			keys:      []string{"lettuce.pool.enabled", "jedis.pool.enabled"},
			why:       "there is a pool where the client has one",
			harmless:  "true",
			otherwise: "what the file says of the size of the pool counts all the same",
		},
		{
			at:   inSpring,
			keys: []string{"database"},
			why:  "Spring uses none with a cluster: its programs are in database 0",
		},
		{
			at:   inSpring,
			keys: []string{"host", "port", "username", "password", "cluster.maxredirects", "sentinel.username", "sentinel.password"},
			why:  "another key takes its place, or there are no servers of that kind",
		},
		{
			at:   inSpring,
			keys: []string{"pool.maxactive", "pool.maxidle", "pool.minidle", "pool.maxwait"},
			why:  "only Spring Boot 1 reads it; later versions read lettuce.pool or jedis.pool",
		},
	}
}

// ignoreKnown adds p to the ignored keys if allIgnored has a key `name` at this place. It reports
// whether there is such a key.
func (r *reader) ignoreKnown(p property, at place, name string) bool {
	for _, known := range allIgnored() {
		if known.at&at == 0 || !slices.Contains(known.keys, name) {
			continue
		}
		if known.harmless == "" || p.class == known.harmless || slices.Equal(p.values, []string{known.harmless}) {
			r.ignore(p, known.why, false)
		} else {
			r.ignore(p, known.otherwise, true)
		}
		return true
	}
	return false
}
