package importconf

import "strings"

// tls takes over the bundle of certificates that the keys name. None of it may get
// lost.
func (r *springReader) tls() error {
	name, ok, err := r.given.take("ssl.bundle")
	if err != nil || !ok {
		return err
	}
	s := &r.settings
	if !s.TLS.Enabled {
		r.ignore(name, "TLS is not enabled", false)
		return nil
	}
	text, err := name.text()
	if err != nil {
		return err
	}
	if text == "" {
		return nil
	}
	bundle, err := r.bundle(name, canonical(text))
	if err != nil {
		return err
	}
	if s.TLS.CACert, err = r.file(bundle, "truststore.certificate"); err != nil {
		return err
	}
	if s.TLS.Cert, err = r.file(bundle, "keystore.certificate"); err != nil {
		return err
	}
	key := bundle["keystore.privatekey"]
	if s.TLS.Key, err = r.file(bundle, "keystore.privatekey"); err != nil {
		return err
	}
	if s.TLS.Key == "" {
		s.TLS.Key = s.TLS.Cert // one file can hold both
	}
	if s.TLS.Cert == "" && s.TLS.Key != "" {
		return key.fault("keystore.certificate, which belongs to it, is missing")
	}
	if e, ok := bundle["options.enabledprotocols"]; ok {
		delete(bundle, "options.enabledprotocols")
		if e, err = r.expandEntry(e); err != nil {
			return err
		}
		if err := s.TLS.protocols(e); err != nil {
			return err
		}
	}
	return r.restOfBundle(bundle)
}

// bundle returns the keys of a bundle without what they begin with.
func (r *springReader) bundle(by entry, name string) (given, error) {
	found := make(given)
	for _, key := range sorted(r.keys) {
		e := r.keys[key]
		rest, ok := strings.CutPrefix(key, bundles)
		if !ok {
			continue
		}
		if strings.HasPrefix(rest, "jks."+name+".") {
			return nil, e.fault("Java's keystores cannot be read here; make PEM files of them with keytool and openssl, and a bundle under spring.ssl.bundle.pem")
		}
		if rest, ok = strings.CutPrefix(rest, "pem."+name+"."); ok {
			found[rest] = e
		}
	}
	if len(found) == 0 {
		return nil, by.fault("the bundle that it names is not in this file")
	}
	return found, nil
}

// file returns the file that a key of a bundle names.
func (r *springReader) file(bundle given, key string) (string, error) {
	e, ok, err := bundle.take(key)
	if err != nil || !ok {
		return "", err
	}
	if e, err = r.expandEntry(e); err != nil {
		return "", err
	}
	return pemFile(e)
}

func (r *springReader) restOfBundle(bundle given) error {
	for _, key := range sorted(bundle) {
		e := bundle[key]
		switch key {
		case "keystore.privatekeypassword", "key.password":
			return e.fault("an encrypted key cannot be read here; decrypt the file with openssl pkey")
		case "truststore.privatekey", "truststore.privatekeypassword", "truststore.type", "truststore.verifykeys",
			"keystore.type", "keystore.verifykeys", "key.alias", "protocol", "reloadonupdate":
			r.ignore(e, "a PEM file needs none", false)
		case "options.ciphers":
			r.ignore(e, "Go chooses the cipher suites, and offers safe ones only", false)
		default:
			return e.fault("there is no such key in Spring Boot 3.1 to 4.0; nothing of a bundle is passed over")
		}
	}
	return nil
}
