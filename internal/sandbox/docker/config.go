package docker

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Config says which engine, image and runtime to use, and how long to wait for
// them. The zero value of a field means its default.
type Config struct {
	// Host is the engine's address, as in DOCKER_HOST. Empty means what
	// DOCKER_HOST and its companions say, or the local default socket.
	Host string
	// Image is the sandbox image: a tag, which is resolved once, or an ID.
	Image string
	// Runtime is the OCI runtime by the engine's name for it, such as "runc"
	// or "runsc". Empty means the engine's default.
	Runtime string
	// Fleet marks every container; only containers of the same fleet are ever
	// reaped. Workers that share an engine and belong together share it.
	Fleet string
	// Worker names this worker. It must be unique among the workers of a fleet
	// that are alive: at its start, a worker removes what a dead one of its
	// name has left.
	Worker string
	// CgroupParent puts the containers under this cgroup. Empty means the
	// engine's default.
	CgroupParent string
	// NanoCPUs is the processor share of a sandbox in billionths of a processor.
	NanoCPUs int64
	// MaxIdle is how long a sandbox may wait for its job; after it Run is
	// refused and, with some delay, any reaper of the fleet may remove it.
	MaxIdle time.Duration
	// CallTimeout bounds a single request to the engine.
	CallTimeout time.Duration
	// StartTimeout bounds the request that starts a container, which waits for
	// the OCI runtime.
	StartTimeout time.Duration
	// ReadyTimeout bounds the time from the start of a container until its
	// interpreter waits for a job.
	ReadyTimeout time.Duration
	// KillTimeout bounds the killing of a container and the arrival of what it
	// had written before.
	KillTimeout time.Duration
	// RemoveTimeout bounds the removal of a container and the proof that it is gone.
	RemoveTimeout time.Duration
	// Metrics receives what is counted; nil counts nowhere.
	Metrics *Metrics
}

// DefaultImage is the sandbox image's tag, as `make setup` builds it.
const DefaultImage = "tracefleet/sandbox:latest"

// WithDefaults returns a copy of c in which every field left zero has its default.
func (c Config) WithDefaults() Config {
	if c.Image == "" {
		c.Image = DefaultImage
	}
	if c.Fleet == "" {
		c.Fleet = "tracefleet"
	}
	if c.NanoCPUs == 0 {
		c.NanoCPUs = 1_000_000_000
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.MaxIdle, 15 * time.Minute},
		{&c.CallTimeout, 20 * time.Second},
		{&c.StartTimeout, 60 * time.Second},
		{&c.ReadyTimeout, 60 * time.Second},
		{&c.KillTimeout, 10 * time.Second},
		{&c.RemoveTimeout, 60 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	return c
}

// labelValue is what a fleet or a worker may be called: it goes into labels
// and filters.
var labelValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$`)

// Validate reports everything that is wrong with c, by field.
func (c Config) Validate() error {
	var errs []error
	if !labelValue.MatchString(c.Fleet) {
		errs = append(errs, fmt.Errorf("fleet %q: want 1 to 128 letters, digits, or any of _ . : -", c.Fleet))
	}
	if !labelValue.MatchString(c.Worker) {
		errs = append(errs, fmt.Errorf("worker %q: want 1 to 128 letters, digits, or any of _ . : -", c.Worker))
	}
	if c.Image == "" {
		errs = append(errs, errors.New("image: must be named"))
	}
	if c.NanoCPUs < 10_000_000 {
		errs = append(errs, fmt.Errorf("nano_cpus %d: want at least 10000000, a hundredth of a processor", c.NanoCPUs))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"max_idle", c.MaxIdle},
		{"call_timeout", c.CallTimeout},
		{"start_timeout", c.StartTimeout},
		{"ready_timeout", c.ReadyTimeout},
		{"kill_timeout", c.KillTimeout},
		{"remove_timeout", c.RemoveTimeout},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s %v: want more than zero", d.name, d.value))
		}
	}
	return errors.Join(errs...)
}
