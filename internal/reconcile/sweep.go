package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/queue"
	"github.com/execra/tracefleet/internal/ticket"
)

// The defaults of SweepConfig.
const (
	DefaultSweepEvery = 5 * time.Second
	DefaultAuditEvery = 30 * time.Second
	DefaultMaxArchive = 4000
)

// sweeperKey is the key of the lock.
const sweeperKey = "tf:sweeper"

// archivePage is how many archived tasks are looked at in one go, archivePages how many such goes one sweep of a
// shard takes at most.
const (
	archivePage  = 500
	archivePages = 20
)

// Book is the ledger as the Sweeper uses it.
type Book interface {
	// Get returns what is known of a job.
	Get(ctx context.Context, id string) (ledger.Entry, error)
	// Shelve notes where the task of a dead letter stands, and returns the job's state.
	Shelve(ctx context.Context, id string, s ledger.Shelf) (ledger.State, error)
	// Condemn makes a queued job a dead letter.
	Condemn(ctx context.Context, id, class, message string) error
	// Dismiss takes a dead letter out of the list.
	Dismiss(ctx context.Context, id string) error
	// NextDeadLetters returns some of all dead letters, and where to go on.
	NextDeadLetters(ctx context.Context, cursor uint64, count int64) (entries []ledger.DeadEntry, next uint64, err error)
}

// Archive is the queue as the Sweeper uses it.
type Archive interface {
	Tasks
	// ShardNames are the names of the archives.
	ShardNames() []string
	// Archived returns tasks of an archive, the oldest first.
	Archived(ctx context.Context, shard string, since time.Time, skip, limit int) ([]queue.ArchivedTask, error)
	// ArchiveSize is the number of tasks in an archive.
	ArchiveSize(ctx context.Context, shard string) (int64, error)
	// Unarchive removes tasks from an archive.
	Unarchive(ctx context.Context, shard string, ids ...string) (int, error)
	// TaskState is the state that the queue gives to the task of a job.
	TaskState(ctx context.Context, e queue.Envelope, q job.Queue) (string, error)
}

var (
	_ Book    = (*ledger.Ledger)(nil)
	_ Archive = (*queue.Producer)(nil)
)

// SweepConfig is what a Sweeper needs to know. The zero value is good for everything but tests.
type SweepConfig struct {
	// Every is the time between two looks at the archives, AuditEvery that between two steps of the audit.
	Every, AuditEvery time.Duration
	// MaxArchive is how many tasks an archive keeps for the queue's own pages. asynq destroys tasks without a word
	// beyond 9,999 and breaks when it has to destroy many at once.
	MaxArchive int
	// Metrics may be nil.
	Metrics *SweepMetrics
	// Log may be nil.
	Log *zap.Logger
}

// WithDefaults returns c with every field filled in.
func (c SweepConfig) WithDefaults() SweepConfig {
	c.Every = cmp.Or(c.Every, DefaultSweepEvery)
	c.AuditEvery = cmp.Or(c.AuditEvery, DefaultAuditEvery)
	c.MaxArchive = cmp.Or(c.MaxArchive, DefaultMaxArchive)
	if c.Metrics == nil {
		c.Metrics = NewSweepMetrics(nil)
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Validate reports every fault of c, which must have its defaults filled in.
func (c SweepConfig) Validate() error {
	var errs []error
	check := func(ok bool, fault string) {
		if !ok {
			errs = append(errs, errors.New(fault))
		}
	}
	check(c.Every > 0, "Every: must be more than 0")
	check(c.AuditEvery > 0, "AuditEvery: must be more than 0")
	check(c.MaxArchive >= 1 && c.MaxArchive <= 4999, "MaxArchive: must be 1 to 4999")
	return errors.Join(errs...)
}

// Sweeper keeps asynq's archive and the dead letters in agreement, and audits asynq's keys. Every worker runs one, and a lock lets
// one of them work.
type Sweeper struct {
	book    Book
	archive Archive
	auditor *queue.Auditor
	cfg     SweepConfig
	lock    *lock

	// These belong to the goroutine of Run. They are forgotten when another one had the lock.
	since   map[string]time.Time // of each shard, up to where its archive was read
	cursor  uint64               // in the dead letters
	audited time.Time
	read    time.Time // when the archives were read from their beginning
}

// rereadEvery is how often the archives are read from their beginning.
const rereadEvery = 10 * time.Minute

// NewSweeper returns a Sweeper that takes its lock in rdb. auditor may be nil: then nothing is audited.
func NewSweeper(rdb redis.UniversalClient, book Book, archive Archive, auditor *queue.Auditor, cfg SweepConfig) (*Sweeper, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sweep config: %w", err)
	}
	return &Sweeper{
		book: book, archive: archive, auditor: auditor, cfg: cfg, lock: newLock(rdb, sweeperKey, max(4*cfg.Every, time.Minute)),
		since: map[string]time.Time{},
	}, nil
}

// Run works until ctx ends. Faults of Redis are logged and waited out; so its only error is nil.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.Every)
	defer ticker.Stop()
	defer s.lock.release(ctx)
	for {
		if err := s.step(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Metrics.errors.Inc()
			s.cfg.Log.Warn("sweep", zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Sweeper) step(ctx context.Context) error {
	mine, err := s.lock.take(ctx)
	if err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	if !mine {
		clear(s.since)
		return nil
	}
	if time.Since(s.read) >= rereadEvery {
		// Clocks that differ, and dead letters that were purged, are noticed by reading everything.
		clear(s.since)
		s.read = time.Now()
	}
	var errs []error
	for _, shard := range s.archive.ShardNames() {
		errs = append(errs, s.drain(ctx, shard))
	}
	if time.Since(s.audited) >= s.cfg.AuditEvery {
		s.audited = time.Now()
		errs = append(errs, s.compare(ctx), s.audit(ctx))
	}
	return errors.Join(errs...)
}

// drain looks at what came into the archive of a shard since the last time, and then keeps it small.
func (s *Sweeper) drain(ctx context.Context, shard string) error {
	since, skip := s.since[shard], 0
	for range archivePages {
		tasks, err := s.archive.Archived(ctx, shard, since, skip, archivePage)
		if err != nil {
			return err
		}
		var drop []string
		for _, t := range tasks {
			keep, err := s.settle(ctx, t)
			if err != nil {
				return err
			}
			if !keep {
				drop = append(drop, t.ID)
			}
		}
		if _, err := s.archive.Unarchive(ctx, shard, drop...); err != nil {
			return err
		}
		skip += len(tasks) - len(drop)
		if len(tasks) > 0 {
			// Two tasks may have been archived in one second, and only one of them seen; clocks may differ.
			s.since[shard] = tasks[len(tasks)-1].At.Add(-5 * time.Second)
		}
		if len(tasks) < archivePage {
			return s.trim(ctx, shard)
		}
	}
	return s.trim(ctx, shard)
}

// settle decides about one archived task: whether it stays there.
func (s *Sweeper) settle(ctx context.Context, t queue.ArchivedTask) (keep bool, err error) {
	state, err := s.book.Shelve(ctx, t.ID, ledger.Shelved)
	if err != nil {
		return false, err
	}
	switch state {
	case ledger.StateDead, ledger.StateRunning:
		// A running one was archived in spite of its worker, whose result decides.
		return true, nil
	case ledger.StateQueued:
		return true, s.condemn(ctx, t)
	default:
		// It has its result, or nobody knows of it any more.
		s.repaired(repairUnarchived, zap.String("job_id", t.ID), zap.String("state", string(state)))
		return false, nil
	}
}

// condemn makes the job of a task that a person archived a dead letter. One that was archived before its job was queued is only
// in the way, and the Reconciler replaces it.
func (s *Sweeper) condemn(ctx context.Context, t queue.ArchivedTask) error {
	e, err := s.book.Get(ctx, t.ID)
	if err != nil || t.At.Before(e.QueuedAt.Truncate(time.Second)) {
		return nil // A damaged entry is for the worker that claims it.
	}
	err = s.book.Condemn(ctx, t.ID, ledger.ClassArchived, "its task was archived by an operator")
	switch {
	case errors.Is(err, ledger.ErrBusy), errors.Is(err, ledger.ErrTerminal), errors.Is(err, ledger.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	s.repaired(repairCondemned, zap.String("job_id", t.ID))
	_, err = s.book.Shelve(ctx, t.ID, ledger.Shelved)
	return err
}

// trim takes the oldest tasks out of an archive that has too many. They stay in the dead letters.
func (s *Sweeper) trim(ctx context.Context, shard string) error {
	for range archivePages {
		size, err := s.archive.ArchiveSize(ctx, shard)
		if err != nil || size <= int64(s.cfg.MaxArchive) {
			return err
		}
		tasks, err := s.archive.Archived(ctx, shard, time.Time{}, 0, min(int(size)-s.cfg.MaxArchive, archivePage))
		if err != nil {
			return err
		}
		var drop []string
		for _, t := range tasks {
			if _, err := s.book.Shelve(ctx, t.ID, ledger.Unshelved); err != nil {
				return err
			}
			drop = append(drop, t.ID)
		}
		n, err := s.archive.Unarchive(ctx, shard, drop...)
		if err != nil {
			return err
		}
		s.cfg.Metrics.repairs.WithLabelValues(repairTrimmed).Add(float64(n))
	}
	return nil
}

// compare looks whether some of the dead letters still have their tasks.
func (s *Sweeper) compare(ctx context.Context) error {
	dead, next, err := s.book.NextDeadLetters(ctx, s.cursor, archivePage)
	if err != nil {
		return err
	}
	s.cursor = next
	for _, d := range dead {
		if err := s.look(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// look compares one dead letter with its task.
func (s *Sweeper) look(ctx context.Context, d ledger.DeadEntry) error {
	if d.Trimmed {
		return nil // The fleet itself took its task away.
	}
	state, err := s.archive.TaskState(ctx, ticket.Of(d.Entry), d.Queue)
	if err != nil || state != "" {
		return err
	}
	if d.Shelved {
		s.repaired(repairDismissed, zap.String("job_id", d.ID))
		return s.book.Dismiss(ctx, d.ID)
	}
	if time.Since(d.FinishedAt) < time.Minute {
		return nil
	}
	// It has had no task since its end. One that is delivered is archived.
	s.repaired(repairShown, zap.String("job_id", d.ID))
	_, err = s.archive.Ensure(ctx, ticket.Of(d.Entry), d.Queue, queue.Unknown)
	return err
}

// audit takes a step of the audit and decides about the tasks that it found astray.
func (s *Sweeper) audit(ctx context.Context) error {
	if s.auditor == nil {
		return nil
	}
	report, err := s.auditor.Step(ctx)
	for fault, n := range report.Repaired {
		if n > 0 {
			s.cfg.Metrics.repairs.WithLabelValues(string(fault)).Add(float64(n))
			s.cfg.Log.Warn("repaired the queue", zap.String("repair", string(fault)), zap.Int("tasks", n))
		}
	}
	errs := []error{err}
	for _, stray := range report.Strays {
		errs = append(errs, s.rescue(ctx, stray))
	}
	return errors.Join(errs...)
}

// rescue decides about a task that will never be delivered.
func (s *Sweeper) rescue(ctx context.Context, stray queue.Stray) error {
	e, err := s.book.Get(ctx, stray.ID)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && e.State.Terminal():
		removed, err := s.auditor.Forget(ctx, stray)
		if removed {
			s.repaired(repairForgotten, zap.String("job_id", stray.ID), zap.String("task_state", stray.State))
		}
		return err
	case err != nil && !errors.Is(err, ledger.ErrCorrupt):
		return err
	case e.State == ledger.StateQueued:
		repaired, err := s.archive.Ensure(ctx, ticket.Of(e), e.Queue, queue.Unknown)
		if repaired {
			s.repaired(repairRequeued, zap.String("job_id", stray.ID), zap.String("task_state", stray.State))
		}
		return err
	}
	return nil // It runs; its claim decides.
}

func (s *Sweeper) repaired(kind string, fields ...zap.Field) {
	s.cfg.Metrics.repairs.WithLabelValues(kind).Inc()
	s.cfg.Log.Warn("repaired the queue", append(fields, zap.String("repair", kind))...)
}
