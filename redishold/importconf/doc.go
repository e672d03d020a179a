// Package importconf reads the configuration of a Java program for the same Redis: a file
// of Redisson, or the keys of a Spring Boot file for the server, the login, the pool, TLS
// and the timeouts. It makes no connection. Settings.Ignored lists the unused keys with
// their lines and the reasons.
//
// The functions cannot use some keys. If the connection would be less safe without such a key,
// or would lead to another server, they return an error with the key and the line. The error
// may contain the name of a placeholder. It contains no value of the file, because a value
// could be a password.
package importconf
