// Package chaos breaks a fleet while it works, and looks afterwards whether anything was lost, done twice, judged wrongly or
// left behind. The fleet is a real one: worker processes, a Redis with an append-only file, and a Docker engine of its own,
// so that the engine of the machine is left alone.
//
// The test of the package is the program behind `make chaos`. Run plainly it is a short form of it.
package chaos
