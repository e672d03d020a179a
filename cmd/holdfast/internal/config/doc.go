// Package config reads the configuration file of the program, holdfast.yaml.
//
// An unknown key is an error, and so is a value of the wrong type: otherwise a setting would
// be missing without a message. Errors name the file and the line. They never quote a value,
// which could be a password.
package config
