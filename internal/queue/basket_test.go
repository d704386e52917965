package queue

import (
	"context"
	"fmt"
	"testing"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/redistest"
)

// A worker fetches several tasks at once. When it ends, each has come to its end or stands in the queue again.
func TestNothingFetchedStaysBehind(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	p := newProducer(t, rdb, Config{})
	const n = 400
	for i := range n {
		if err := p.Enqueue(t.Context(), Envelope{ID: fmt.Sprint("job-", i), Ahead: int64(i)}, job.QueueDefault); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		var got calls
		enough := make(chan struct{}, 1000)
		r := consume(t, rdb, Config{Concurrency: maxFetch}, nil, func(_ context.Context, d Delivery) (Report, error) {
			if got.add(d) > 20 {
				enough <- struct{}{}
			}
			return Report{Status: job.StatusOK}, nil
		})
		<-enough
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		for _, name := range Shards(DefaultShards).names(job.QueueDefault) {
			if ids := rdb.LRange(t.Context(), "asynq:{"+name+"}:active", 0, -1).Val(); len(ids) > 0 {
				t.Fatalf("left active in %s: %v", name, ids)
			}
		}
	}
}
