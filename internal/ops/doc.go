// Package ops is what operators see of a long-running command: its log, its
// metrics, and whether it is alive and ready for work.
package ops
