// Package dash shows in a browser what is locked: which names are locked, by which holder, since when, for
// how long, and the waiters. It is one http.Handler over an admin.Console.
//
//	http.Handle("/locks/", dash.Handler(admin.New(backend), &dash.Options{BasePath: "/locks/"}))
//
// Its pages are made by the server and work without JavaScript; with it they keep
// up with the store by server-sent events. One watcher serves all browsers: it is
// there while somebody looks, and for some seconds longer, and asks the store for
// less than 200 commands per second however many browsers there are.
//
// What it shows is for people who watch. Holds that come and go between two looks
// are not seen, and a name that is on no page is looked at only now and then.
package dash
