// Package runningtest tests how make image builds an image of the command.
package runningtest
