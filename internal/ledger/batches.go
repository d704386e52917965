package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/execra/tracefleet/internal/job"
)

// batchTTL is how long a batch is remembered after it was last written to: longer than any of its results.
const batchTTL = job.MaxRetentionS*time.Second + 24*time.Hour

// batchesKey indexes the batches by the time they were made.
const batchesKey = "tf:batches"

func batchKey(name string) string      { return "tf:batch:{" + name + "}" }
func batchItemsKey(name string) string { return "tf:batch:{" + name + "}:items" }

// Batch is a number of jobs that were submitted together, in an order. What became of each is in the job's own entry.
type Batch struct {
	Name string
	// Source says where the jobs came from, for people.
	Source string
	// From is the batch that this one runs again, Filter what was chosen of it.
	From, Filter string
	// Items is how many jobs it has; known when Complete.
	Items int64
	// Complete is true when all its jobs were submitted.
	Complete  bool
	CreatedAt time.Time
}

// BatchItem is one place in a batch.
type BatchItem struct {
	// Index is the place, from 0.
	Index int64 `json:"-"`
	// ID is the job.
	ID string `json:"id"`
	// Key is what the submitter calls it, such as the name of a file.
	Key string `json:"key"`
	// OldID and OldStatus are of the job that this one runs again.
	OldID     string `json:"old_id,omitempty"`
	OldStatus string `json:"old_status,omitempty"`
}

// openBatchScript: ARGV ttl, then fields and values.
var openBatchScript = redis.NewScript(luaClock + `
local made = redis.call('HSETNX', KEYS[1], 'created', stamp)
if made == 1 then
	for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {made == 1 and 'made' or 'exists', redis.call('HGETALL', KEYS[1])}
`)

// OpenBatch makes a batch, or returns the one that has the name; made tells which.
func (l *Ledger) OpenBatch(ctx context.Context, b Batch) (found Batch, made bool, err error) {
	if !job.ValidID(b.Name) {
		return Batch{}, false, fmt.Errorf("batch %.40q: not a valid name", b.Name)
	}
	got, err := openBatchScript.Run(ctx, l.rdb, []string{batchKey(b.Name)}, batchTTL.Milliseconds(),
		"source", b.Source, "from", b.From, "filter", b.Filter).Slice()
	if err != nil {
		return Batch{}, false, reply("open batch", b.Name, err)
	}
	code, rest := codeOf(got)
	if found, err = parseBatch(b.Name, fields(rest, 0)); err != nil {
		return found, false, err
	}
	pipe := l.rdb.Pipeline()
	pipe.ZAdd(ctx, batchesKey, redis.Z{Score: float64(found.CreatedAt.UnixMilli()), Member: b.Name})
	pipe.PExpire(ctx, batchesKey, 2*batchTTL)
	if _, err := pipe.Exec(ctx); err != nil {
		return found, false, reply("index batch", b.Name, err)
	}
	return found, code == "made", nil
}

func parseBatch(name string, h hash) (Batch, error) {
	p := fieldParser{from: h}
	b := Batch{
		Name: name, Source: h["source"], From: h["from"], Filter: h["filter"], Items: p.integer("items"),
		Complete: h["complete"] == "1", CreatedAt: p.time("created"),
	}
	return b, p.err
}

// Batch returns a batch.
// Errors: ErrNotFound; ErrCorrupt.
func (l *Ledger) Batch(ctx context.Context, name string) (Batch, error) {
	if !job.ValidID(name) {
		return Batch{}, fmt.Errorf("batch %.40q: %w", name, ErrNotFound)
	}
	h, err := l.rdb.HGetAll(ctx, batchKey(name)).Result()
	if err != nil {
		return Batch{}, reply("read batch", name, err)
	}
	if len(h) == 0 {
		return Batch{}, fmt.Errorf("batch %s: %w", name, ErrNotFound)
	}
	return parseBatch(name, h)
}

// Batches returns the newest batches, at most limit.
func (l *Ledger) Batches(ctx context.Context, limit int) ([]Batch, error) {
	names, err := l.rdb.ZRevRange(ctx, batchesKey, 0, int64(limit)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	var found []Batch
	for _, name := range names {
		b, err := l.Batch(ctx, name)
		if errors.Is(err, ErrNotFound) {
			_ = l.rdb.ZRem(ctx, batchesKey, name).Err() // The next list does it else.
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, b)
	}
	return found, nil
}

// PutBatchItems writes items into a batch. Writing the same again changes nothing.
func (l *Ledger) PutBatchItems(ctx context.Context, name string, items []BatchItem) error {
	if len(items) == 0 {
		return nil
	}
	values := make([]any, 0, 2*len(items))
	for _, item := range items {
		doc, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("encode item %d of batch %s: %w", item.Index, name, err)
		}
		values = append(values, strconv.FormatInt(item.Index, 10), doc)
	}
	pipe := l.rdb.Pipeline()
	put := pipe.HSet(ctx, batchItemsKey(name), values...)
	pipe.PExpire(ctx, batchItemsKey(name), batchTTL)
	pipe.PExpire(ctx, batchKey(name), batchTTL)
	if _, err := pipe.Exec(ctx); err != nil {
		return reply("write to batch", name, errors.Join(put.Err(), err))
	}
	return nil
}

// CompleteBatch notes that all items of a batch were submitted.
func (l *Ledger) CompleteBatch(ctx context.Context, name string, items int64) error {
	if err := l.rdb.HSet(ctx, batchKey(name), "items", items, "complete", "1").Err(); err != nil {
		return reply("complete batch", name, err)
	}
	return nil
}

// BatchItems returns up to n items of a batch, from an index on, in order, ending before the first that is missing.
// Errors: ErrCorrupt.
func (l *Ledger) BatchItems(ctx context.Context, name string, from, n int64) ([]BatchItem, error) {
	indexes := make([]string, 0, n)
	for i := from; i < from+n; i++ {
		indexes = append(indexes, strconv.FormatInt(i, 10))
	}
	if len(indexes) == 0 {
		return nil, nil
	}
	values, err := l.rdb.HMGet(ctx, batchItemsKey(name), indexes...).Result()
	if err != nil {
		return nil, reply("read batch", name, err)
	}
	var items []BatchItem
	for i, v := range values {
		doc, ok := v.(string)
		if !ok {
			break
		}
		item := BatchItem{Index: from + int64(i)}
		if err := json.Unmarshal([]byte(doc), &item); err != nil || !job.ValidID(item.ID) {
			return nil, fmt.Errorf("batch %s: %w", name, corrupt("item %d", item.Index))
		}
		items = append(items, item)
	}
	return items, nil
}
