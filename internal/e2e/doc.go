// Package e2e tests the whole fleet from outside: the two commands as they are
// shipped, a real Redis, a real engine, the real sandbox image. Its programs are
// folders below testdata; testdata/README.md says how to add one.
//
// The tests need what `make setup` provides, and fail without it.
package e2e
