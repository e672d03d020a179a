// Package dash shows the locks of a store in a browser: their names, holders, hold times,
// leases and waiters. It is an http.Handler over an admin.Console.
//
//	http.Handle("/locks/", dash.Handler(admin.New(backend), &dash.Options{BasePath: "/locks/"}))
//
// The server makes the pages, and they work without JavaScript. With JavaScript, the pages get
// updates by server-sent events. The dashboard polls the store once for all browsers, while a
// browser is open and for some seconds longer. It sends less than 200 commands per second,
// however many browsers there are.
//
// The dashboard is for people. It misses a hold that begins and ends between two polls. While
// no browser shows a name, the dashboard polls the name less often.
package dash
