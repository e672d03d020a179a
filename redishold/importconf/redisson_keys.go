package importconf

// The parts of a file. The order is that in which people look for them.
const (
	atTop      = "top"
	several    = "sentinelServersConfig clusterServersConfig replicatedServersConfig masterSlaveServersConfig"
	allServers = "singleServerConfig " + several
	anywhere   = atTop + " " + allServers // since 3.x or 4.0 at the top as well
)

const switchedOff = "0 or less switches the limit off, which cannot be done here; the default stands"

// redissonRows is the table of Redisson's keys. Names of addresses after the first
// are of older files and of frameworks.
func (r *reader) redissonRows() []row {
	s := &r.s
	return append(
		redissonIgnored(),
		row{"singleServerConfig", "address addresses", &r.addrs},
		row{"masterSlaveServersConfig", "masterAddress address", &r.addrs},
		row{"sentinelServersConfig", "sentinelAddresses addresses address", &r.addrs},
		row{"clusterServersConfig replicatedServersConfig", "nodeAddresses addresses address", &r.addrs},
		row{"sentinelServersConfig", "masterName", &s.MasterName},
		row{"sentinelServersConfig", "sentinelUsername", &s.SentinelUsername},
		row{"sentinelServersConfig", "sentinelPassword", secret{&s.SentinelPassword}},
		row{anywhere, "username", &s.Username},
		row{anywhere, "password", secret{&s.Password}},
		row{allServers, "database", &s.Database},
		row{allServers, "clientName", &s.ClientName},
		row{allServers, "connectTimeout", limit{&s.DialTimeout, switchedOff}},
		row{allServers, "timeout", limit{&s.Timeout, switchedOff}},
		row{"singleServerConfig", "connectionPoolSize", &s.Pool.Size},
		row{"singleServerConfig", "connectionMinimumIdleSize", &s.Pool.MinIdle},
		row{several, "masterConnectionPoolSize", &s.Pool.Size},
		row{several, "masterConnectionMinimumIdleSize", &s.Pool.MinIdle},
		row{atTop, "lockWatchdogTimeout", limit{&s.TTL, ""}},
		row{atTop, "fairLockWaitTimeout", limit{&s.FairWait, ""}},
		row{anywhere, "sslVerificationMode", &r.verifyMode},
		row{allServers, "sslEnableEndpointIdentification", &r.identify},
		row{anywhere, "sslKeystoreType", &r.storeType},
		row{anywhere, "sslTruststore", &r.ca},
		row{anywhere, "sslKeystore", &r.cert},
		row{anywhere, "sslProtocols", &r.protocols},
		row{anywhere, "sslTruststorePassword sslKeystorePassword", note("a PEM file needs none")},
		row{anywhere, "sslTrustManagerFactory sslKeyManagerFactory", refusal("a Java class cannot be run here; name PEM files with sslTruststore and sslKeystore instead")},
	)
}

// redissonIgnored has the keys that are of no use here.
func redissonIgnored() []row {
	const class = "org.redisson.config."
	return []row{
		{anywhere, "nameMapper", unless{class + "DefaultNameMapper", "it changes no name", "a Java class cannot be run here: if it puts something before each name, set redishold.Options.Prefix to that, else the locks of Java have other keys"}},
		{anywhere, "commandMapper", unless{class + "DefaultCommandMapper", "it changes no command", "a Java class cannot be run here, and commands cannot be renamed"}},
		{anywhere, "credentialsResolver", unless{class + "DefaultCredentialsResolver", "it gives no credentials", "a Java class cannot be run here: set Username and Password"}},
		{anywhere, "natMapper natMap", unless{class + "DefaultNatMapper", "it changes no address", "addresses that servers tell are taken as they are: map them with rueidisconn.Options.Dial, or the Dialer of go-redis"}},
		{atTop, "checkLockSyncedSlaves", unless{"false", "no replica has to acknowledge a lock, unless redishold.Options.Replicas says so", "whether replicas must acknowledge a lock is redishold.Options.Replicas: set it"}},
		{atTop, "slavesSyncTimeout", note("whether replicas must acknowledge a lock is redishold.Options.Replicas; how long they may take follows from the TTL and the context")},
		{anywhere, "sslProvider", note("there is one TLS here, that of Go")},
		{anywhere, "sslCiphers", note("Go chooses the cipher suites, and offers safe ones only")},
		{anywhere, "tcpKeepAlive keepAlive tcpKeepAliveCount tcpKeepAliveIdle tcpKeepAliveInterval tcpUserTimeout tcpNoDelay", note("the client sets its sockets by itself")},
		{atTop, "codec keepPubSubOrder reliableTopicWatchdogTimeout minCleanUpDelay maxCleanUpDelay cleanUpKeysAmount valkeyCapabilities", note("locks do not use it")},
		{atTop, "codecProvider resolverProvider redissonReferenceEnabled referenceEnabled referenceCodecProvider", note("it is about objects, not about locks")},
		{atTop, "threads executor nettyThreads nettyExecutor eventLoopGroup transportMode useLinuxNativeEpoll nettyHook addressResolverGroupFactory useThreadClassLoader decodeInExecutor", note("it is about the threads and sockets of Java")},
		{atTop, "lockWatchdogBatchSize", note("renewals that are due together travel together, without a limit to set")},
		{atTop, "useScriptCache", note("scripts are always cached by the server")},
		{atTop, "connectionListener", note("a Java class cannot be run here: holdfast.Options.Observe tells of locks")},
		{atTop, "lazyInitialization", note("rueidisconn.Open connects at once, go-redis at the first call")},
		{atTop, "protocol", note("the client chooses the protocol; it makes no difference to locks")},
		{atTop, "registrationKey monitoring", note("it is of Redisson PRO")},
		{allServers, "idleConnectionTimeout pingConnectionInterval pingTimeout reconnectionTimeout reconnectionDelay failedAttempts", note("the client looks after its connections by itself")},
		{allServers, "retryAttempts retryInterval retryDelay", note("Holdfast tries again by itself where that is safe, until the context ends")},
		{allServers, "credentialsReapplyInterval", note("no credentials are resolved")},
		{allServers, "subscriptionsPerConnection subscriptionTimeout subscriptionMode shardedSubscriptionMode subscriptionConnectionPoolSize subscriptionConnectionMinimumIdleSize slaveSubscriptionConnectionPoolSize slaveSubscriptionConnectionMinimumIdleSize", note("subscriptions need no setting: one connection for each server, and in a cluster both kinds of channels")},
		{allServers, "readMode loadBalancer slaveAddresses slaveConnectionPoolSize slaveConnectionMinimumIdleSize failedSlaveReconnectionInterval failedSlaveCheckInterval failedSlaveNodeDetector slaveFailsInterval fallbackLoadingToMaster checkMasterLinkStatus", note("nothing is read from replicas")},
		{allServers, "dnsMonitoring dnsMonitoringInterval dnsMonitoringTimes monitorIPChanges", note("names are looked up for each new connection")},
		{allServers, "scanInterval", note("rueidisconn and go-redis watch Sentinels and clusters by themselves; of replicated servers nobody watches which one is the master")},
		{allServers, "checkSentinelsList checkSlaveStatusWithSyncing sentinelsDiscovery checkSlotsCoverage", note("the client finds out by itself")},
	}
}
