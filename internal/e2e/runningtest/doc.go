// Package runningtest tests docs/running.md: it runs the commands of its crontab, its units and
// its containers against a real Redis, and validates the units and the manifests. It also tests
// how make image builds an image.
package runningtest
