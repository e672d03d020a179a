// Package faqtest has no code of its own, only tests: the errors that docs/faq.md explains
// are those that users get.
package faqtest
