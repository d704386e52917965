// Package sandbox is the seam between the fleet and whatever runs a program
// in isolation.
package sandbox
