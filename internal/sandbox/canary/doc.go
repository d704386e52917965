// Package canary looks at a sandbox from the inside, over any Launcher: a job of
// our own tries what a hostile one would, and reports what it found. What an
// engine says about a container is one thing, what holds inside is another.
//
// A Guard looks when a worker starts, every hour, and after the engine has
// changed, and lets no job have a sandbox unless the last look was good. The
// program that looks is ours and so is believed; one that ran beside a hostile
// program would not be.
package canary
