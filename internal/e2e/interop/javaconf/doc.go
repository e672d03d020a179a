// Package javaconf has no code of its own, only tests: configurations of Redisson
// and of Spring Boot, for deployments that the tests start, lead importconf to
// locks on them.
package javaconf
