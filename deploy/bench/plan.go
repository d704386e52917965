package main

import "time"

// plan is how much of everything is measured.
type plan struct {
	Name string
	// QueueJobs is how many jobs the queue is filled with, QueueTurns how often. They are
	// the finished jobs beside which the latency of the crowded fleet is measured.
	QueueJobs, QueueTurns int
	// IdleRounds is how often each of (a), (d) and (e) is measured; of (b) and
	// (c) one in ContainerEvery rounds.
	IdleRounds, ContainerEvery int
	// Slots are the numbers of jobs at once; each is measured Turns times for Turn on
	// either side.
	Slots []int
	Turns int
	Turn  time.Duration
	// Rest is how long a fleet at rest is watched.
	Rest time.Duration
	// MemoryJobs is how many jobs the watched worker runs, seen at MemoryLooks moments.
	MemoryJobs, MemoryLooks int
}

func fullPlan() plan {
	return plan{
		Name: "full", QueueJobs: 4000, QueueTurns: 5, IdleRounds: 200, ContainerEvery: 10,
		Slots: []int{1, 2, 4, 8}, Turns: 4, Turn: 8 * time.Second, Rest: 20 * time.Second, MemoryJobs: 1000, MemoryLooks: 10,
	}
}

// quickPlan takes about 50 s.
func quickPlan() plan {
	return plan{
		Name: "quick", QueueJobs: 4000, QueueTurns: 2, IdleRounds: 10, ContainerEvery: 4,
		Slots: []int{1, 2, 4, 8}, Turns: 1, Turn: time.Second, Rest: 500 * time.Millisecond, MemoryJobs: 16, MemoryLooks: 2,
	}
}
