package main

import "net/http"

// pages serves the trace viewer.
func pages() http.Handler { return nil }
