package cli

const configurationLong = `A setting comes from the first of these: the command line, the environment, the
configuration file, the default.

--config or HOLDFAST_CONFIG names the file. Otherwise it is the first existing
file of ./holdfast.yaml, $XDG_CONFIG_HOME/holdfast/holdfast.yaml (~/.config
without the variable) and /etc/holdfast/holdfast.yaml.

A holdfast.yaml in the current folder that nobody has named may have come with
a clone or an archive. It must belong to the user or to root, and others must
not be able to write it. It has no variables, names only files in its folder,
and has no section serve. Its store gets no password of the environment. A
message names the file, and shells do not read it to complete a name. To trust
the file, name it with --config.

  url: redis+sentinel://app:${REDIS_PASSWORD}@s1,s2,s3/mymaster
  prefix: "prod:"              # before the keys in the store
  redis:
    user: app                  # instead of the URL's
    password: ${PASSWORD}      # or password_file
    layout: redisson           # redisson, plain or timestamp
    replicas: 0                # how many must confirm, or all
    shared_tokens: false       # tokens of Redisson's RFencedLock
    fair_wait: 5m              # fairLockWaitTimeout of Redisson
    dial_timeout: 2s
    tls: {ca: ca.pem, cert: own.pem, key: key.pem, server_name: redis.example}
  etcd: {}                     # of an etcd:// URL: user, password or
  zookeeper: {}                # password_file, dial_timeout and tls, as below
  postgres: {}                 # redis; the same of zk://, postgres:// and
  mysql: {}                    # mysql://
  lock:
    ttl: 30s
    margin: 3s                 # a lock counts as lost so long before its end
    wait: 0s
    max_hold: 0s
    kill_after: 10s
    fair: false
  event_log:                   # events are written to the store: --event-log
    enabled: false
    stream_maxlen: 10000       # how much of it is kept, about
  serve:                       # the pages of holdfast serve: its flags
    listen: 127.0.0.1:7070
    metrics_listen: ""         # another address for /metrics and /healthz
    base_path: /
    tls: {cert: web.pem, key: web-key.pem}
    auth:
      basic_file: users        # or token_file, or header and trusted
      header: X-Forwarded-User
      trusted: [10.0.0.0/8]
    hosts: [locks.example]     # names by which browsers reach the pages
    allow_unlock: true         # operators may force locks
    operators: [ada, grace]
    names: ""                  # only names that begin with this
    counters: false
    only_while_viewed: false

Instead of url, "redlock: [url, url, url]" names independent servers. A majority of them
must agree on each lock of run, hold and elect.

Instead of url, "redisson: redisson.yaml" or "spring: application.yaml" names the file
of a Java program: its servers, passwords, certificates and times are used. A warning
lists important keys that cannot be used; --verbose lists the others.

${NAME} and ${NAME:-default} are replaced with the value in the environment; $$ is a
dollar. In the user and the password of a URL the value is encoded. Names of files
are relative to the folder of the configuration. An unknown key is an error, and so
is a variable without a value. A key may also be written with its sections, as in
"lock.ttl: 30s".

Files of configurations, certificates and passwords have 1 MiB at most. A warning names
files of secrets that other users can read or write.

User, password and certificates in the file are for the store that the file names.
A store that --url, HOLDFAST_URL or REDIS_URL names does not get them.

Variables:
  HOLDFAST_URL            the store; else REDIS_URL
  REDISCLI_AUTH           the password of a Redis, if the URL has none
  HOLDFAST_PASSWORD_FILE  a file with the password of the store
  HOLDFAST_CONFIG         the configuration file
  HOLDFAST_PREFIX         as --prefix
  HOLDFAST_TTL            as --ttl
  HOLDFAST_LOG_LEVEL      debug, info, warn or error: the level of the log
  HOLDFAST_LOG_FORMAT     json: messages are lines of JSON
  NO_COLOR                no colours

In JSON, also that of --json, what cannot be printed is escaped, as in \u202e.`

const urlsLong = `A URL names a store: in --url, HOLDFAST_URL, REDIS_URL or the configuration. HOST:PORT
alone is a Redis.

  redis://[user[:password]@]host[:port][/db]      rediss:// with TLS; also
                                                  valkey and valkeys
  redis+cluster://host[:port],host[:port],...     nodes of a cluster
  redis+sentinel://host[:port],.../master[/db]    Sentinels; their password is
                                                  ?sentinel_password=...
  unix:///path/to/socket[?db=1]
  etcd://[user:password@]host[:port],host[:port],...         etcds:// with TLS
  zk://[user:password@]host[:port],host[:port],...[/path]    zks:// with TLS
  postgres://[user[:password]@]host[:port],.../database      also postgresql://
  mysql://[user[:password]@]host[:port],.../database         MySQL and MariaDB

A password comes from the first of these: --askpass, the URL, REDISCLI_AUTH (for a
Redis), the file that HOLDFAST_PASSWORD_FILE names. PostgreSQL then uses
PGPASSWORD and ~/.pgpass, as libpq does.

In etcd the name of a lock is the prefix of its keys: "etcdctl lock deploy" takes the
lock deploy. etcd keeps leases of whole seconds. The URL may have ?dial_timeout=.

In ZooKeeper the name of a lock is the path below the path of the URL: a Curator mutex
on /deploy is the lock deploy. A user belongs to the scheme digest. The URL may have
?dial_timeout=.

A database keeps the locks in a table. ?create=true creates the table. ?table=ops.locks
names a table other than holdfast_locks. Locks in a database are exclusive: --fair,
--shared, --exclusive and --permits need Redis, etcd or ZooKeeper. With
?layout=shedlock the table is that of ShedLock, named shedlock, and Java programs with
ShedLock are excluded too; that table has no fencing tokens, so HOLDFAST_TOKEN is 0.

Other parameters of postgres:// are those of libpq, such as sslmode. If the URL leads to
a pooler, ?listen=host:port names the server itself, which notifies waiters. With
?listen=off waiters poll. Other parameters of mysql:// are tls (true, false, preferred or
skip-verify), socket (a file, instead of the host) and dial_timeout.

Several hosts of a database are a primary and its replicas. mysql:// uses the first host
that can be reached and is not read-only. postgres:// does so with
?target_session_attrs=read-write. Locks need one primary at a time: two servers that
both take writes grant the same lock twice.`
