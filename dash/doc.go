// Package dash shows the locks of a store in a browser: their names, holders, hold times,
// leases and waiters. It is an http.Handler over an admin.Console.
//
//	http.Handle("/locks/", dash.Handler(admin.New(backend), &dash.Options{BasePath: "/locks/"}))
//
// The server makes its pages, and they work without JavaScript. With JavaScript they get
// updates by server-sent events. One goroutine polls the store for all browsers, while a
// browser is open and for some seconds longer. It sends less than 200 commands per
// second, however many browsers there are.
//
// The dashboard is for people. It misses a hold that begins and ends between two polls,
// and polls names that no browser shows less often.
package dash
