// Package importconf reads the configuration that a Java program has for the same Redis:
// a file of Redisson, or of Spring Boot what names the server, the login, the pool, TLS
// and the times. It connects to nothing. What is not used is listed in Settings.Ignored
// with its line and the reason.
//
// What cannot be done as the file says, and would leave the connection less safe or lead
// it elsewhere, is an error with the key and the line. No error shows a value of the file:
// it could be a password.
package importconf
