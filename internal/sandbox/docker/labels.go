package docker

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// LabelFleet is the label of every container that this package creates whose value is the fleet's name: an
// engine that is asked for the containers with it lists a fleet's sandboxes.
const LabelFleet = "dev.tracefleet.fleet"

// The other labels of every container that this package creates. The reaper trusts nothing but them and
// LabelFleet to tell its own containers from other people's.
const (
	labelWorker   = "dev.tracefleet.worker"
	labelInstance = "dev.tracefleet.instance"
	labelLaunched = "dev.tracefleet.launched"
	labelDeadline = "dev.tracefleet.deadline"
)

// tag is what a container's labels say: whose it is, and when it must be gone.
type tag struct {
	Fleet  string
	Worker string
	// Instance tells one life of a worker from the next.
	Instance string
	Launched time.Time
	Deadline time.Time
}

func (t tag) labels() map[string]string {
	return map[string]string{
		LabelFleet:    t.Fleet,
		labelWorker:   t.Worker,
		labelInstance: t.Instance,
		labelLaunched: t.Launched.UTC().Format(time.RFC3339),
		labelDeadline: t.Deadline.UTC().Format(time.RFC3339),
	}
}

// parseTag reads the labels of a container of the given fleet; false when they
// are not those of one of ours. An unreadable time counts as long past.
func parseTag(labels map[string]string, fleet string) (tag, bool) {
	if fleet == "" || labels[LabelFleet] != fleet || labels[labelInstance] == "" {
		return tag{}, false
	}
	t := tag{Fleet: fleet, Worker: labels[labelWorker], Instance: labels[labelInstance]}
	if at, err := time.Parse(time.RFC3339, labels[labelLaunched]); err == nil {
		t.Launched = at
	}
	if at, err := time.Parse(time.RFC3339, labels[labelDeadline]); err == nil {
		t.Deadline = at
	}
	return t, true
}

// containerName makes up a name under which a container can be found even when
// the engine's answer to its creation was lost.
func containerName() string { return "tracefleet-" + randomHex() }

// randomHex returns 24 random hexadecimal digits.
func randomHex() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}
