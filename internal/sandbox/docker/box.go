package docker

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
	"github.com/execra/tracefleet/internal/wire"
)

var _ sandbox.Sandbox = (*box)(nil)

// box is one container: a sandbox.
type box struct {
	e    *Engine
	name string
	// limits and asked are in force; Adjust changes them.
	limits job.Limits
	asked  spec
	// expires is the time after which it takes no job.
	expires time.Time

	// What boot sets, once, before anyone else sees the box.
	id          string
	conn        net.Conn
	in          *bufio.Reader // of conn
	stream      *demux        // of in
	frames      *wire.Decoder // of stream
	ready       wire.ReadyInfo
	waiting     bool // whether a goroutine waits for the container's end
	stopWaiting func()
	// mayRun is true once the engine was asked to start the container. Before, it holds neither memory nor processor.
	mayRun bool

	// waited is closed when the wait is over: exit says how the container
	// ended, or waitErr why that is not known.
	waited  chan struct{}
	exit    *container.WaitResponse
	waitErr error

	// closed is closed when the first Close has closeErr.
	closed   chan struct{}
	closeErr error

	mu      sync.Mutex
	used    bool
	closing bool
	// interruption ends the current Run from outside; nil when there is none.
	interruption func(ending)
	// leaving is true once the supervisor has sent its last frame.
	leaving bool
}

// begin takes the box's one job.
func (b *box) begin(asked job.Limits, interruption func(ending)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closing:
		return sandbox.ErrClosed
	case b.used:
		return sandbox.ErrUsed
	case time.Now().After(b.expires):
		return sandbox.ErrExpired
	}
	select {
	case <-b.waited:
		// Not the job's doing, which would otherwise be blamed for it.
		return fmt.Errorf("%w before its job: %s", errGone, b.fate())
	default:
	}
	if err := sandbox.Fits(b.limits, asked); err != nil {
		return err
	}
	b.used, b.interruption = true, interruption
	return nil
}

// over notes that the run has ended, and whether by the supervisor's report.
func (b *box) over(reported bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.interruption, b.leaving = nil, reported
}

// interrupt ends the run that is under way, if any.
func (b *box) interrupt(why ending) {
	b.mu.Lock()
	interruption := b.interruption
	b.mu.Unlock()
	if interruption != nil {
		interruption(why)
	}
}

// errGone means that a sandbox did not live long enough to get its job.
var errGone = errors.New("the sandbox ended")

// fate says how the container ended, once waited is closed.
func (b *box) fate() string {
	if b.exit == nil {
		return fmt.Sprintf("the engine lost track of it: %v", b.waitErr)
	}
	return fmt.Sprintf("exit code %d", b.exit.StatusCode)
}
