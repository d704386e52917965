package pool

import (
	"go.uber.org/zap"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/sandbox"
)

// learnAfter is how many jobs in a row, at the least, must have wanted the same other limits for the stock to get those.
const learnAfter = 4

// place says whether r is served by any sandbox of the class.
func (k *keeper) place(r *request) {
	r.stock = sandbox.Fits(k.class, r.limits) == nil
	if r.stock {
		k.foreign = 0
	}
}

// learn notes that a job wants limits which no waiting sandbox can be given. When that is so for as many jobs in a row as
// there are sandboxes in the stock, the stock is made anew with those limits: the next jobs like that find it. Jobs
// with ever other limits change nothing.
func (k *keeper) learn(wanted job.Limits) {
	if k.foreign == 0 || sandbox.Fits(k.other, wanted) != nil {
		k.other, k.foreign = wanted, 0
	}
	k.foreign++
	if k.cfg.keep() == 0 || k.foreign < max(learnAfter, k.cfg.keep()) {
		return
	}
	k.class, k.foreign = k.other, 0
	k.pool.log.Info("the stock gets other limits, which the last jobs wanted",
		zap.Int64("memory_bytes", k.class.MemoryBytes), zap.Int64("processes", k.class.Processes),
		zap.Int64("file_bytes", k.class.FileBytes), zap.Int64("trace_bytes", k.class.TraceBytes))
	k.pool.generation.Add(1)
	k.recycle()
	for _, r := range k.waiting {
		if r.cancel == nil { // else its own launch is under way
			k.place(r)
		}
	}
}
