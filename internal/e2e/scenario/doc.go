// Package scenario reads end-to-end scenarios and compares results with them.
//
// A scenario is a folder: the files of a program, want.json with what the
// result must say, and sometimes job.json with parts of the Job document. One
// new folder is one new test; testdata/README.md in the parent folder describes
// the keys.
//
// The package reads the result as the bytes that a client gets and shares no
// type with the fleet, so that a field renamed by mistake is a difference here
// and not a change on both sides.
//
// All values are immutable after loading and may be used by several goroutines.
package scenario
