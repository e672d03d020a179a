// Package serve answers browsers: it serves the dashboard and the metrics to the users that
// may see them, within bounds for each address.
package serve
