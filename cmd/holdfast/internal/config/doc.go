// Package config reads the configuration file of the program, holdfast.yaml.
//
// A file that has a key the program does not know is an error, as is a value of
// the wrong sort: what was meant to be set would silently not be. Errors name the
// file and the line, and never quote a value, which could be a password.
package config
