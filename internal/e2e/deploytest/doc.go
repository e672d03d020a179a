// Package deploytest shows that Holdfast works on every way of running Redis:
// standalone, over a unix socket, over TLS with client certificates, as an ACL
// user, with replicas, with Sentinel and as a Cluster, through a URL and through
// the user's own client. It has nothing but tests.
package deploytest
