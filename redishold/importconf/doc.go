// Package importconf reads the configuration that a Java program has for the
// same Redis: a file of Redisson, or the application.properties or
// application.yaml of Spring Boot.
//
// What comes out are plain settings, for rueidisconn.Open or for a client of the
// program's own, and the times of the locks. The package connects to nothing and
// imports no client.
//
// Nothing is passed over in silence. What Holdfast has no use for is listed in
// Settings.Ignored with the reason, misspelt names too. What cannot be done as
// the file says, and would leave the connection less safe or lead it elsewhere,
// is an error with the key and the line. No error shows a value of the file: it
// could be a password.
//
// The environment is passed in; the package reads none. Of files it reads only
// those that Settings.TLSConfig is given a function for.
package importconf
