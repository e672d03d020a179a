package importconf

import (
	"path"
	"strings"
)

// build makes settings of the keys.
func (r *redissonReader) build() error {
	for _, step := range []func() error{r.servers, r.users, r.times, r.pool, r.tls} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// servers finds out where the servers are, and who may log in according to their
// addresses.
func (r *redissonReader) servers() error {
	s := &r.settings
	var err error
	if s.Database, err = r.given.number("database"); err != nil {
		return err
	}
	if s.MasterName, err = r.masterName(); err != nil {
		return err
	}
	kind, names := redissonServers(r.section)
	e, found, err := r.given.take(names...)
	if err != nil {
		return err
	}
	addrs, err := e.list()
	switch {
	case err != nil:
		return err
	case !found || len(addrs) == 0:
		return r.servedBy.fault("no address is given; %s is expected", names[0])
	case len(addrs) > 1 && kind == Single:
		return e.fault("one address is expected here; several servers are clusterServersConfig, sentinelServersConfig or replicatedServersConfig")
	}
	servers := make([]address, len(addrs))
	for i, text := range addrs {
		if servers[i], err = parseAddress(text, false, decodeRedisson); err != nil {
			return e.fault("%v", err)
		}
		servers[i].from = e
		if servers[i].rest != "" && servers[i].rest != "/" {
			return e.fault("an address ends with its port; the database has a key of its own")
		}
	}
	if err := s.locate(kind, servers); err != nil {
		return err
	}
	data := servers
	if kind == Sentinel {
		data = nil
		s.SentinelUsername, s.SentinelPassword, err = r.given.credentials(servers, [2]string{"sentinelUsername", "sentinelPassword"})
		if err != nil {
			return err
		}
	}
	s.Username, s.Password, err = r.given.credentials(data, [2]string{"username", "password"})
	return err
}

func (r *redissonReader) masterName() (string, error) {
	e, found, err := r.given.take("masterName")
	if err != nil || r.section != "sentinelServersConfig" {
		return "", err
	}
	name, err := e.text()
	switch {
	case err != nil:
		return "", err
	case !found || name == "":
		return "", r.servedBy.fault("masterName is missing; the Sentinels have to be told which master")
	}
	return name, nil
}

func (r *redissonReader) users() (err error) {
	r.settings.ClientName, err = r.given.text("clientName")
	return err
}

func (r *redissonReader) times() error {
	s := &r.settings
	const off = "0 or less switches the limit off, which cannot be done here; the default stands"
	var err error
	if s.TTL, err = r.given.duration(s, milliseconds, "", "lockWatchdogTimeout"); err != nil {
		return err
	}
	if s.FairWait, err = r.given.duration(s, milliseconds, "", "fairLockWaitTimeout"); err != nil {
		return err
	}
	if s.DialTimeout, err = r.given.duration(s, milliseconds, off, "connectTimeout"); err != nil {
		return err
	}
	s.Timeout, err = r.given.duration(s, milliseconds, off, "timeout")
	return err
}

func (r *redissonReader) pool() error {
	size, idle := "masterConnectionPoolSize", "masterConnectionMinimumIdleSize"
	if r.section == "singleServerConfig" {
		size, idle = "connectionPoolSize", "connectionMinimumIdleSize"
	}
	var err error
	if r.settings.Pool.Size, err = r.given.number(size); err != nil {
		return err
	}
	r.settings.Pool.MinIdle, err = r.given.number(idle)
	return err
}

// tls takes over certificates and what is verified. None of it may get lost.
func (r *redissonReader) tls() error {
	s := &r.settings
	isSSL := func(name string) bool { return strings.HasPrefix(name, "ssl") }
	if !s.TLS.Enabled {
		r.given.leave(s, "no address asks for TLS; rediss:// would", isSSL)
		return nil
	}
	for _, name := range []string{"sslTrustManagerFactory", "sslKeyManagerFactory"} {
		if e, ok := r.given[name]; ok {
			return e.fault("a Java class cannot be run here; name PEM files with sslTruststore and sslKeystore instead")
		}
	}
	form, err := r.given.text("sslKeystoreType")
	if err != nil {
		return err
	}
	if s.TLS.CACert, err = r.keystore("sslTruststore", form); err != nil {
		return err
	}
	if s.TLS.Cert, err = r.keystore("sslKeystore", form); err != nil {
		return err
	}
	s.TLS.Key = s.TLS.Cert
	if err := r.verify(); err != nil {
		return err
	}
	if e, ok, err := r.given.take("sslProtocols"); err != nil {
		return err
	} else if ok {
		if err := s.TLS.protocols(e); err != nil {
			return err
		}
	}
	r.given.leave(s, "a PEM file needs none", isSSL) // passwords of stores
	return nil
}

// keystore returns the PEM file that a key names. The keystores of Java cannot be
// read here.
func (r *redissonReader) keystore(name, form string) (string, error) {
	e, ok, err := r.given.take(name)
	if err != nil || !ok {
		return "", err
	}
	file, err := pemFile(e)
	if err != nil || file == "" {
		return "", err
	}
	switch ext := strings.ToLower(path.Ext(file)); {
	case form == "" && (ext == ".pem" || ext == ".crt" || ext == ".cer") || strings.EqualFold(form, "PEM"):
		return file, nil
	case name == "sslKeystore":
		return "", e.fault("Java's keystores cannot be read here; make a PEM file with certificate and key of it, with keytool -importkeystore -deststoretype PKCS12 and openssl pkcs12 -nodes, and name that, without sslKeystoreType")
	default:
		return "", e.fault("Java's keystores cannot be read here; make a PEM file of it with keytool -list -rfc, and name that, without sslKeystoreType")
	}
}

// verify takes over what is verified. A truststore is looked at in any case, in
// Redisson too.
func (r *redissonReader) verify() error {
	t := &r.settings.TLS
	older, had := r.given["sslEnableEndpointIdentification"]
	identify, err := r.given.yes(true, "sslEnableEndpointIdentification")
	if err != nil {
		return err
	}
	e, ok, err := r.given.take("sslVerificationMode")
	if err != nil {
		return err
	}
	mode, err := e.text()
	if err != nil {
		return err
	}
	if !ok && !identify {
		mode = "NONE"
	}
	switch strings.ToUpper(mode) {
	case "", "STRICT":
		t.Verify = VerifyAll
	case "CA_ONLY":
		t.Verify = VerifyAuthority
	case "NONE":
		t.Verify = VerifyNothing
		if t.CACert != "" {
			t.Verify = VerifyAuthority
		}
	default:
		return e.fault("STRICT, CA_ONLY or NONE is expected here")
	}
	if ok && had {
		r.ignore(older.ignored("sslVerificationMode says it"))
	}
	return nil
}
