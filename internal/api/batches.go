package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/execra/tracefleet/internal/api/access"
	"github.com/execra/tracefleet/internal/batch"
	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
)

// Bounds of batches over HTTP. Larger ones go in several requests, or by enqueuer batch.
const (
	maxBatchJobs  = 1000
	maxBatchBytes = 32 << 20
	batchParallel = 8
)

// mediaNDJSON is the media type of JSON lines.
const mediaNDJSON = "application/x-ndjson"

func batchOperations() []operation {
	id := idParam()
	id.doc = "The name of the batch."
	return []operation{
		{
			id: "submitBatch", method: http.MethodPost, path: "/batches", role: access.RoleSubmit, tag: "Batches", summary: "Submit many programs",
			doc: "Takes Job documents, one a line, at most 1,000 and 32 MiB. Each is taken or refused for itself: the answer has one line for each, in order. " +
				"Without ids of their own jobs get such as are made from the batch's name and their content, so that the same request again doubles nothing.",
			params: []param{{name: "name", in: "query", kind: "string", pattern: "^[A-Za-z0-9_][A-Za-z0-9._:-]*$", max: job.MaxIDBytes, doc: "The name of the batch; made by the server when left out."}},
			body:   JobDocument{}, bodyType: mediaNDJSON,
			answers: []reply{{status: 200, doc: "What became of each job, one BatchLine a line, also when all were refused.", body: BatchLine{}, mediaType: mediaNDJSON,
				headers: map[string]string{"Location": "The batch."}}},
			run: (*API).submitBatch,
		},
		{
			id: "getBatch", method: http.MethodGet, path: "/batches/{id}", role: access.RoleRead, tag: "Batches", summary: "Where a batch stands",
			doc: "With wait it answers when all jobs have ended, or the time is over.",
			params: append(append([]param{id}, waitParams()...),
				param{name: "limit", in: "query", kind: "integer", max: maxBatchJobs, doc: "How many items to list; 50 when left out."},
				param{name: "from", in: "query", kind: "integer", doc: "The index of the first item to list."}),
			answers: []reply{{status: 200, doc: "The batch.", body: BatchDocument{}, headers: map[string]string{"Retry-After": docRetry, "Preference-Applied": docApplied}}}, run: (*API).batch,
		},
	}
}

// BatchLine is what became of one job of a batch.
type BatchLine struct {
	Index   int      `json:"index" doc:"The line, from 0; empty lines do not count."`
	ID      string   `json:"id,omitempty" doc:"The id of the job, when it was taken."`
	Status  int      `json:"status" doc:"The status that the job alone would have got: 202, or that of the problem."`
	Existed bool     `json:"existed,omitempty" doc:"Whether the job was there already."`
	Problem *Problem `json:"problem,omitempty" doc:"Why the job was refused."`
}

// BatchDocument is where a batch stands.
type BatchDocument struct {
	ID        string           `json:"id"`
	CreatedAt time.Time        `json:"created_at"`
	Complete  bool             `json:"complete" doc:"Whether its submission came to its end."`
	Total     int64            `json:"total" doc:"How many jobs it has: those that were valid."`
	Open      int64            `json:"open" doc:"How many have no result yet."`
	Counts    map[string]int64 `json:"counts" doc:"How many are queued, running, missing, or ended with each status. Missing is what was not taken in, is past its retention, or belongs to another tenant."`
	Items     []BatchItem      `json:"items" nullable:"false" doc:"The items asked for, in order."`
	Next      *int64           `json:"next" doc:"What from is for the next page; null on the last."`
}

// BatchItem is one job of a batch.
type BatchItem struct {
	Index  int64  `json:"index"`
	ID     string `json:"id"`
	Key    string `json:"key" doc:"The name of the job."`
	Status string `json:"status" doc:"queued, running, missing, or how it ended."`
}

// tenantBook shows of the jobs in a batch only those of a tenant: the ids in a batch are whatever its submitter wrote.
type tenantBook struct {
	Batches
	tenant string
}

// Standings tells where many jobs stand; those of other tenants are missing.
func (b tenantBook) Standings(ctx context.Context, ids []string) ([]ledger.Standing, error) {
	return b.StandingsOf(ctx, b.tenant, ids)
}

// batchDesk reads batches for somebody.
func (a *API) batchDesk(who access.Identity) *batch.Desk {
	if who.AllTenants {
		return batch.New(a.cfg.Batches, a.cfg.Desk)
	}
	return batch.New(tenantBook{a.cfg.Batches, who.Tenant}, a.cfg.Desk)
}

// batchSource tells whose batch it is. Batches of the command line have other sources, and are
// for tokens of all tenants.
func batchSource(tenant string) string { return "api:" + tenant }

// submitBatch takes many jobs in.
func (a *API) submitBatch(w http.ResponseWriter, r *http.Request) error {
	if a.cfg.Batches == nil {
		return notFound("batch")
	}
	if err := media(r, mediaNDJSON); err != nil {
		return err
	}
	name := r.URL.Query().Get("name")
	switch {
	case name == "":
		name = "batch-" + job.NewID(time.Now())
	case !job.ValidID(name):
		return invalid("query.name", "must be letters, digits and . _ : -, at most "+strconv.Itoa(job.MaxIDBytes))
	}
	body, release, err := a.readBody(w, r, maxBatchBytes)
	defer release()
	if err != nil {
		return err
	}
	lines := documents(body)
	if len(lines) == 0 || len(lines) > maxBatchJobs {
		return invalid("body", fmt.Sprintf("must hold 1 to %d jobs, one a line", maxBatchJobs))
	}
	outcomes, err := a.takeBatch(r, name, lines)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for i := range outcomes {
		line, err := encode(outcomes[i])
		if err != nil {
			return err
		}
		_, _ = out.Write(line) // A buffer takes everything.
	}
	w.Header().Set("Location", Prefix+"/batches/"+name)
	a.write(w, r, http.StatusOK, mediaNDJSON, out.Bytes())
	return nil
}

// documents parts a body into its lines that are not empty.
func documents(body []byte) [][]byte {
	var lines [][]byte
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// takeBatch writes the batch down and takes in what is valid of it.
func (a *API) takeBatch(r *http.Request, name string, lines [][]byte) ([]BatchLine, error) {
	f, ctx := facts(r), r.Context()
	source := batchSource(f.identity.Tenant)
	found, _, err := a.cfg.Batches.OpenBatch(ctx, ledger.Batch{Name: name, Source: source})
	if err != nil {
		return nil, err
	}
	if found.Source != source {
		return nil, invalid("query.name", "is taken by a batch of somebody else")
	}
	outcomes, wanted := make([]BatchLine, len(lines)), make([]submission, len(lines))
	var items []ledger.BatchItem
	seen := map[string]int{}
	for i, line := range lines {
		outcomes[i].Index = i
		s, err := a.readSubmission(line, f)
		if err != nil {
			outcomes[i].refuse(r, err)
			continue
		}
		if s.job.ID == "" {
			digest := s.job.Digest()
			s.job.ID = batchJobID(name, digest, seen[digest])
			seen[digest]++
		}
		wanted[i], outcomes[i].ID = s, s.job.ID
		items = append(items, ledger.BatchItem{Index: int64(len(items)), ID: s.job.ID, Key: s.job.Name})
	}
	if err := a.sameItems(ctx, found, items); err != nil {
		return nil, err
	}
	if err := a.cfg.Batches.PutBatchItems(ctx, name, items); err != nil {
		return nil, err
	}
	var group errgroup.Group
	group.SetLimit(batchParallel)
	for i := range outcomes {
		if outcomes[i].Problem == nil {
			group.Go(func() error {
				a.takeItem(r, wanted[i], &outcomes[i])
				return nil
			})
		}
	}
	_ = group.Wait() // Each outcome holds its own error.
	return outcomes, a.cfg.Batches.CompleteBatch(ctx, name, int64(len(items)))
}

// sameItems refuses other jobs under the name of a batch that was taken in: they would stand in the places of those that are
// there. A submission that was broken off may be sent again.
func (a *API) sameItems(ctx context.Context, found ledger.Batch, items []ledger.BatchItem) error {
	if !found.Complete {
		return nil
	}
	there, err := a.cfg.Batches.BatchItems(ctx, found.Name, 0, maxBatchJobs+1)
	if err != nil {
		return err
	}
	same := func(x, y ledger.BatchItem) bool { return x.ID == y.ID }
	if !slices.EqualFunc(there, items, same) {
		return invalid("query.name", "is taken by a batch of other jobs")
	}
	return nil
}

func (a *API) takeItem(r *http.Request, s submission, line *BatchLine) {
	_, existed, err := a.take(r.Context(), s)
	if err != nil {
		line.refuse(r, err)
		return
	}
	line.Status, line.Existed = http.StatusAccepted, existed
}

func (l *BatchLine) refuse(r *http.Request, err error) {
	p := *problemOf(err)
	p.Instance, p.RequestID = r.URL.EscapedPath(), requestID(r)
	l.ID, l.Status, l.Problem = "", p.Status, &p
}

// batchJobID is the id of a job in a batch: the same for the same content. nth tells apart jobs of the same content.
func batchJobID(name, digest string, nth int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "tracefleet.batch.http/1\n%s\n%s\n%d", name, digest, nth))
	return "b-" + hex.EncodeToString(sum[:16])
}

// batch answers with where a batch stands.
func (a *API) batch(w http.ResponseWriter, r *http.Request) error {
	if a.cfg.Batches == nil {
		return notFound("batch")
	}
	name := r.PathValue("id")
	if !job.ValidID(name) {
		return notFound("batch")
	}
	wait, preferred, err := parseWait(r)
	if err != nil {
		return err
	}
	limit, err := parseLimit(r, maxBatchJobs)
	if err != nil {
		return err
	}
	from, err := parseFrom(r)
	if err != nil {
		return err
	}
	found, err := a.cfg.Batches.Batch(r.Context(), name)
	who := facts(r).identity
	if errors.Is(err, ledger.ErrNotFound) || err == nil && !who.AllTenants && found.Source != batchSource(who.Tenant) {
		return notFound("batch")
	}
	if err != nil {
		return err
	}
	if preferred {
		w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	desk := a.batchDesk(who)
	if err := a.awaitBatch(r, desk, name, wait); err != nil {
		return err
	}
	doc, err := batchDocument(r.Context(), desk, name, from, limit)
	if err != nil {
		return err
	}
	if doc.Open > 0 {
		w.Header().Set("Retry-After", "1")
	}
	return a.answer(w, r, http.StatusOK, doc)
}

func parseFrom(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("from")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strings.HasPrefix(text, "+") {
		return 0, invalid("query.from", "must be an index from 0")
	}
	return n, nil
}

func batchDocument(ctx context.Context, desk *batch.Desk, name string, from int64, limit int) (BatchDocument, error) {
	status, err := desk.Status(ctx, name)
	if err != nil {
		return BatchDocument{}, err
	}
	doc := BatchDocument{
		ID: name, CreatedAt: status.CreatedAt, Complete: status.Complete, Total: status.Items, Open: status.Open,
		Counts: status.Counts, Items: []BatchItem{},
	}
	for p, err := range desk.Each(ctx, name, from) {
		if err != nil {
			return doc, err
		}
		if len(doc.Items) == limit {
			next := from + int64(limit)
			doc.Next = &next
			break
		}
		doc.Items = append(doc.Items, BatchItem{Index: p.Index, ID: p.ID, Key: p.Key, Status: p.Status})
	}
	return doc, nil
}

// awaitBatch waits until no job of a batch is open, or the time is over. It waits for one job after the
// other, each on the shared subscription: whatever their order, all have ended when the last of these waits has.
func (a *API) awaitBatch(r *http.Request, desk *batch.Desk, name string, wait time.Duration) error {
	if wait <= 0 || !a.enterWait(r) {
		return nil
	}
	defer a.leaveWait(r)
	timed, cancel := context.WithTimeoutCause(r.Context(), wait, errWaitOver)
	defer cancel()
	waiting, done := a.untilStop(timed)
	defer done()
	for p, err := range desk.Each(waiting, name, 0) {
		state := ledger.State(p.Status)
		for err == nil && (state == ledger.StateQueued || state == ledger.StateRunning) {
			var e ledger.Entry
			e, err = a.cfg.Book.Change(waiting, p.ID, state)
			state = e.State
		}
		switch {
		case a.waitEnded(waiting):
			return nil // The answer says how far it is.
		case err != nil && !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrCorrupt):
			return err
		}
	}
	return nil
}
