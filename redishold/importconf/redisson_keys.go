package importconf

import "slices"

// sections returns the keys of the configurations of servers.
func sections() []string {
	return []string{"singleServerConfig", "sentinelServersConfig", "clusterServersConfig", "replicatedServersConfig", "masterSlaveServersConfig"}
}

// redissonServers returns what a section is about, and the names of the key with
// the addresses. Those after the first are of older files and of frameworks.
func redissonServers(section string) (Deployment, []string) {
	switch section {
	case "sentinelServersConfig":
		return Sentinel, []string{"sentinelAddresses", "addresses", "address"}
	case "clusterServersConfig":
		return Cluster, []string{"nodeAddresses", "addresses", "address"}
	case "replicatedServersConfig":
		return Replicated, []string{"nodeAddresses", "addresses", "address"}
	case "masterSlaveServersConfig":
		return Single, []string{"masterAddress", "address"}
	default:
		return Single, []string{"address", "addresses"}
	}
}

// redissonUses reports whether a key of a section, or of the top of the file, is
// of use here.
func redissonUses(section, key string) bool {
	switch key {
	case "username", "password", "sslVerificationMode", "sslKeystoreType", "sslTruststore", "sslTruststorePassword",
		"sslKeystore", "sslKeystorePassword", "sslProtocols", "sslTrustManagerFactory", "sslKeyManagerFactory":
		return true // in a section; since 4.0 at the top as well
	case "lockWatchdogTimeout", "fairLockWaitTimeout":
		return section == ""
	}
	if section == "" {
		return false
	}
	_, addresses := redissonServers(section)
	switch key {
	case "clientName", "connectTimeout", "timeout", "database", "sslEnableEndpointIdentification":
		return true
	case "sentinelUsername", "sentinelPassword", "masterName":
		return section == "sentinelServersConfig"
	case "connectionPoolSize", "connectionMinimumIdleSize":
		return section == "singleServerConfig"
	case "masterConnectionPoolSize", "masterConnectionMinimumIdleSize":
		return section != "singleServerConfig"
	}
	return slices.Contains(addresses, key)
}

// redissonIgnores returns why a key that Redisson knows is of no use here, or "".
func redissonIgnores(section string, p pair) (why string, serious bool) {
	switch {
	case section != "":
		why = ignoredInSection(p.key)
	case p.key == "checkLockSyncedSlaves" && p.value.Value != "false":
		return "whether replicas must acknowledge a lock is redishold.Options.Replicas: set it", true
	default:
		why = ignoredAtTop(p.key)
	}
	if why != "" {
		return why, false
	}
	return ignoredAnywhere(p.key, className(p.value))
}

// ignoredAnywhere knows the keys that moved, in 3.x or 4.0, from the sections to
// the top.
func ignoredAnywhere(key, class string) (why string, serious bool) {
	switch key {
	case "nameMapper":
		if isDefault(class, "DefaultNameMapper") {
			return "it changes no name", false
		}
		return "a Java class cannot be run here: if it puts something before each name, set redishold.Options.Prefix to that, else the locks of Java have other keys", true
	case "commandMapper":
		if isDefault(class, "DefaultCommandMapper") {
			return "it changes no command", false
		}
		return "a Java class cannot be run here, and commands cannot be renamed", true
	case "credentialsResolver":
		if isDefault(class, "DefaultCredentialsResolver") {
			return "it gives no credentials", false
		}
		return "a Java class cannot be run here: set Username and Password", true
	case "natMapper", "natMap":
		if isDefault(class, "DefaultNatMapper") {
			return "it changes no address", false
		}
		return "addresses that servers tell are taken as they are: map them with rueidisconn.Options.Dial, or the Dialer of go-redis", true
	case "sslProvider":
		return "there is one TLS here, that of Go", false
	case "sslCiphers":
		return "Go chooses the cipher suites, and offers safe ones only", false
	case "tcpKeepAlive", "keepAlive", "tcpKeepAliveCount", "tcpKeepAliveIdle", "tcpKeepAliveInterval", "tcpUserTimeout", "tcpNoDelay":
		return "the client sets its sockets by itself", false
	}
	return "", false
}

func isDefault(class, name string) bool { return class == "org.redisson.config."+name }

func ignoredAtTop(key string) string {
	switch key {
	case "codec":
		return "locks do not use it"
	case "codecProvider", "resolverProvider", "redissonReferenceEnabled", "referenceEnabled", "referenceCodecProvider":
		return "it is about objects, not about locks"
	case "threads", "executor", "nettyThreads", "nettyExecutor", "eventLoopGroup", "transportMode", "useLinuxNativeEpoll",
		"nettyHook", "addressResolverGroupFactory", "useThreadClassLoader", "decodeInExecutor":
		return "it is about the threads and sockets of Java"
	case "lockWatchdogBatchSize":
		return "renewals that are due together travel together, without a limit to set"
	case "checkLockSyncedSlaves": // false
		return "no replica has to acknowledge a lock, unless redishold.Options.Replicas says so"
	case "slavesSyncTimeout":
		return "whether replicas must acknowledge a lock is redishold.Options.Replicas; how long they may take follows from the TTL and the context"
	case "useScriptCache":
		return "scripts are always cached by the server"
	case "keepPubSubOrder", "reliableTopicWatchdogTimeout", "minCleanUpDelay", "maxCleanUpDelay", "cleanUpKeysAmount", "valkeyCapabilities":
		return "locks do not use it"
	case "connectionListener":
		return "a Java class cannot be run here: holdfast.Options.Observe tells of locks"
	case "lazyInitialization":
		return "rueidisconn.Open connects at once, go-redis at the first call"
	case "protocol":
		return "the client chooses the protocol; it makes no difference to locks"
	case "registrationKey", "monitoring":
		return "it is of Redisson PRO"
	}
	return ""
}

func ignoredInSection(key string) string {
	switch key {
	case "idleConnectionTimeout", "pingConnectionInterval", "pingTimeout", "reconnectionTimeout", "reconnectionDelay", "failedAttempts":
		return "the client looks after its connections by itself"
	case "retryAttempts", "retryInterval", "retryDelay":
		return "Holdfast tries again by itself where that is safe, until the context ends"
	case "credentialsReapplyInterval":
		return "no credentials are resolved"
	case "subscriptionsPerConnection", "subscriptionTimeout", "subscriptionMode", "shardedSubscriptionMode",
		"subscriptionConnectionPoolSize", "subscriptionConnectionMinimumIdleSize",
		"slaveSubscriptionConnectionPoolSize", "slaveSubscriptionConnectionMinimumIdleSize":
		return "subscriptions need no setting: one connection for each server, and in a cluster both kinds of channels"
	case "readMode", "loadBalancer", "slaveAddresses", "slaveConnectionPoolSize", "slaveConnectionMinimumIdleSize",
		"failedSlaveReconnectionInterval", "failedSlaveCheckInterval", "failedSlaveNodeDetector", "slaveFailsInterval",
		"fallbackLoadingToMaster", "checkMasterLinkStatus":
		return "nothing is read from replicas"
	case "dnsMonitoring", "dnsMonitoringInterval", "dnsMonitoringTimes", "monitorIPChanges":
		return "names are looked up for each new connection"
	case "scanInterval":
		return "rueidisconn and go-redis watch Sentinels and clusters by themselves; of replicated servers nobody watches which one is the master"
	case "checkSentinelsList", "checkSlaveStatusWithSyncing", "sentinelsDiscovery", "checkSlotsCoverage":
		return "the client finds out by itself"
	}
	return ""
}

// misplaced returns why a key that does not exist where it stands was not used.
func misplaced(section, key string) string {
	if section == "" {
		for _, s := range sections() {
			if redissonUses(s, key) || ignoredInSection(key) != "" {
				return "it belongs into a configuration of servers, such as " + s
			}
		}
	} else if redissonUses("", key) || ignoredAtTop(key) != "" {
		return "it belongs to the top of the file"
	}
	return "there is no such key here in Redisson 3.17 to 4.7: misspelt?"
}
