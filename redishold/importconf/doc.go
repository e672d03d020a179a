// Package importconf reads the configuration of a Java program for the same Redis: a file
// of Redisson, or the keys of a Spring Boot file for the server, the login, the pool, TLS
// and the timeouts. It makes no connection. Settings.Ignored lists the unused keys with
// their lines and the reasons.
//
// The functions return an error for a key that they cannot use if, without it, the connection
// would be less safe or lead to another server. The error has the key and the line. It may
// contain the name of a placeholder, but no value of the file, which could be a password.
package importconf
