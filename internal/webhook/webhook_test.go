package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver takes callbacks, and answers with the statuses it was given, the last one over and over.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	got      []delivered
}

type delivered struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	r := &receiver{statuses: statuses}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, delivered{q.Header, string(body)})
		status := r.statuses[min(len(r.got), len(r.statuses))-1]
		if status >= 300 && status < 400 {
			w.Header().Set("Location", r.URL+"/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() []delivered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]delivered{}, r.got...)
}

type fixture struct {
	t      *testing.T
	ledger *ledger.Ledger
	store  *Store
	cfg    Config
}

var testSecret = Secrets{[]byte(strings.Repeat("k", 24)), []byte(strings.Repeat("o", 32))}

func setup(t *testing.T) *fixture {
	t.Helper()
	rdb := redistest.Start(t, redistest.Options{}).Client()
	book, err := ledger.New(rdb, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close() })
	return &fixture{t: t, ledger: book, store: NewStore(rdb), cfg: Config{
		Targets: Targets{Private: []string{"127.0.0.1"}}, Secrets: testSecret, BaseURL: "https://fleet.example", UserAgent: "test",
		Retries: []time.Duration{time.Millisecond, time.Millisecond},
	}}
}

// run starts n senders, which end with the test.
func (f *fixture) run(n int) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		s, err := NewSender(f.store, f.ledger, f.cfg)
		if err != nil {
			f.t.Fatal(err)
		}
		wg.Go(func() {
			if err := s.Run(ctx); err != nil {
				f.t.Error(err)
			}
		})
	}
	f.t.Cleanup(func() { cancel(); wg.Wait() })
}

// job makes a job with a callback.
func (f *fixture) job(id, url string) {
	f.t.Helper()
	f.register(id, testJob(id).Digest(), url)
	f.create(id)
}

func testJob(id string) job.Job {
	return job.Job{ID: id, Files: map[string]string{"main.py": "1"}}.Normalize()
}

// register keeps a callback that is the first of its job.
func (f *fixture) register(id, digest, url string) {
	f.t.Helper()
	c := Callback{JobID: id, Digest: digest, URL: url, Traceparent: "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"}
	if found, made, err := f.store.Register(f.t.Context(), c); err != nil || !made || found != c {
		f.t.Fatalf("register: %+v, %t, %v", found, made, err)
	}
}

func (f *fixture) create(id string) {
	f.t.Helper()
	if _, _, err := f.ledger.Create(f.t.Context(), testJob(id)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) finish(id string) {
	f.t.Helper()
	claim, err := f.ledger.Claim(f.t.Context(), id, "w")
	if err != nil {
		f.t.Fatal(err)
	}
	r := job.Result{Schema: job.ResultSchema, ID: id, Status: job.StatusOK, Headline: "Finished normally", Encoding: job.EncodingUTF8, Stdout: "secret output"}
	if err := f.ledger.Finish(f.t.Context(), id, claim.Fence, r); err != nil {
		f.t.Fatal(err)
	}
}

// patience bounds what must happen in the end, also on a machine that is busy with other things.
const patience = time.Minute

func (f *fixture) eventually(what string, ok func(Delivery) bool, id string) Delivery {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		d, err := f.store.Get(f.t.Context(), id)
		if err == nil && ok(d) {
			return d
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not in time; last: %+v, %v", what, d, err)
		}
		select {
		case <-f.t.Context().Done():
			f.t.Fatal("the test is over")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func in(s State) func(Delivery) bool { return func(d Delivery) bool { return d.State == s } }

func TestDelivery(t *testing.T) {
	t.Parallel()
	f := setup(t)
	to := newReceiver(t, 200)
	f.run(2) // two replicas send it once
	f.job("a", to.URL+"/hook")
	f.finish("a")
	d := f.eventually("delivered", in(StateDelivered), "a")
	if d.Attempts != 1 || d.LastStatus != 200 || d.NextAt != nil || d.URL != to.URL+"/hook" {
		t.Errorf("got %+v", d)
	}
	all := to.all()
	if len(all) != 1 {
		t.Fatalf("got %d deliveries, want 1", len(all))
	}
	h, body := all[0].header, all[0].body
	var event struct {
		Type string
		Data map[string]string
	}
	if err := json.Unmarshal([]byte(body), &event); err != nil {
		t.Fatal(err)
	}
	if event.Type != "trace.finished" || event.Data["id"] != "a" || event.Data["status"] != "ok" || event.Data["headline"] != "Finished normally" ||
		event.Data["url"] != "https://fleet.example/api/v1/traces/a" || strings.Contains(body, "secret output") {
		t.Errorf("got body %s", body)
	}
	if h.Get("webhook-id") != d.EventID || strings.Contains(d.EventID, ".") || h.Get("traceparent") == "" || h.Get("User-Agent") != "test" || h.Get("Content-Type") != "application/json" {
		t.Errorf("got headers %v", h)
	}
	var at int64
	if _, err := fmt.Sscan(h.Get("webhook-timestamp"), &at); err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		t.Errorf("got timestamp %q", h.Get("webhook-timestamp"))
	}
	if want := testSecret.Sign(d.EventID, time.Unix(at, 0), []byte(body)); h.Get("webhook-signature") != want || strings.Count(want, "v1,") != 2 {
		t.Errorf("got signature %q, want %q", h.Get("webhook-signature"), want)
	}
}

// TestSignatureOfTheStandard is the example of the specification of Standard Webhooks.
func TestSignatureOfTheStandard(t *testing.T) {
	t.Parallel()
	secrets, err := ParseSecrets("# the first\n\nwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	if err != nil {
		t.Fatal(err)
	}
	got := secrets.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.run(1)
	for name, tt := range map[string]struct {
		statuses []int
		state    State
		attempts int
	}{
		"busy-then-fine": {[]int{503, 500, 204}, StateDelivered, 3},
		"never":          {[]int{500}, StateFailed, 3},
		"gone":           {[]int{410}, StateFailed, 1},
		"redirect":       {[]int{307}, StateFailed, 3},
	} {
		to := newReceiver(t, tt.statuses...)
		f.job(name, to.URL)
		f.finish(name)
		d := f.eventually(name, in(tt.state), name)
		all := to.all()
		if d.Attempts != tt.attempts || len(all) != tt.attempts || tt.state == StateFailed && d.LastError == "" {
			t.Errorf("%s: got %+v and %d requests, want %d", name, d, len(all), tt.attempts)
		}
		for _, one := range all {
			if one.header.Get("webhook-id") != d.EventID {
				t.Errorf("%s: the event id changes", name)
			}
		}
	}
	if _, err := f.store.Replay(t.Context(), "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("replay of none: %v", err)
	}
	if _, err := f.store.Replay(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	f.eventually("tried again", func(d Delivery) bool { return d.State == StateFailed && d.LastStatus == 410 }, "gone")
}

// TestMissedEnding checks that a delivery whose ending nobody heard is made all the same.
func TestMissedEnding(t *testing.T) {
	t.Parallel()
	f := setup(t)
	to := newReceiver(t, 200)
	f.job("a", to.URL)
	f.finish("a")
	// Nobody listens. The delivery is due a minute from now; make it due.
	if ok, err := f.store.ended(t.Context(), "a"); !ok || err != nil {
		t.Fatalf("ended: %t, %v", ok, err)
	}
	f.run(1)
	f.eventually("delivered", in(StateDelivered), "a")
}

func TestRegisterOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.job("a", "https://one.example")
	digest := testJob("a").Digest()
	want := Callback{JobID: "a", Digest: digest, URL: "https://one.example"}
	if found, made, err := f.store.Register(t.Context(), Callback{JobID: "a", Digest: "other", URL: "https://two.example"}); err != nil || made || found != want {
		t.Errorf("got %+v, %t, %v, want the first", found, made, err)
	}
	if err := f.store.Forget(t.Context(), "a", "other"); err != nil {
		t.Fatal(err)
	}
	if d, err := f.store.Get(t.Context(), "a"); err != nil || d.URL != want.URL || !d.Of(digest) || d.Of("other") {
		t.Errorf("after another one was forgotten: %+v, %v", d, err)
	}
	if err := f.store.Forget(t.Context(), "a", digest); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Get(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after it: %v", err)
	}
}

// TestCallbackIsForItsJobOnly registers a callback for an id that another job has, as a submission does that is about to be
// refused, and lets that job end.
func TestCallbackIsForItsJobOnly(t *testing.T) {
	t.Parallel()
	f := setup(t)
	to := newReceiver(t, 200)
	f.run(1)
	f.create("theirs")
	f.register("theirs", "another digest", to.URL)
	f.finish("theirs")
	deadline := time.Now().Add(patience)
	for {
		if _, err := f.store.Get(t.Context(), "theirs"); errors.Is(err, ErrNotFound) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the callback is still there")
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	f.job("own", to.URL)
	f.finish("own")
	f.eventually("delivered", in(StateDelivered), "own")
	if all := to.all(); len(all) != 1 || !strings.Contains(all[0].body, `"own"`) {
		t.Errorf("got %+v, want the own job's callback only", all)
	}
}

// TestPrivateAddressIsNotDialed lets a public-looking host name lead to this machine.
func TestPrivateAddressIsNotDialed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	to := newReceiver(t, 200)
	f.cfg.Targets = Targets{Hosts: []string{"*"}}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(to.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	f.run(1)
	f.job("a", "https://localhost:"+port+"/")
	f.finish("a")
	d := f.eventually("refused", in(StateFailed), "a")
	if d.LastError != errPrivate.Error() || len(to.all()) != 0 {
		t.Errorf("got %+v and %d requests", d, len(to.all()))
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	targets := Targets{Hosts: []string{"hooks.example", "*.cdn.example"}, Private: []string{"intern.example", "10.1.2.3"}}
	all := Targets{Hosts: []string{"*"}}
	for url, want := range map[string][2]bool{ // with the list, with *
		"https://hooks.example/x":           {true, true},
		"https://HOOKS.example.:8443/x?y=1": {true, true},
		"https://a.b.cdn.example":           {true, true},
		"https://cdn.example":               {false, true},
		"https://evilcdn.example":           {false, true},
		"http://hooks.example":              {false, false},
		"http://intern.example":             {true, false},
		"http://10.1.2.3/":                  {true, false},
		"https://10.1.2.4/":                 {false, false},
		"https://127.0.0.1/":                {false, false},
		"https://[::1]/":                    {false, false},
		"https://[::ffff:127.0.0.1]/":       {false, false},
		"https://169.254.169.254/latest":    {false, false},
		"https://[fd00::1]/":                {false, false},
		"https://8.8.8.8/":                  {false, true},
		"https://user:pass@hooks.example":   {false, false},
		"https://hooks.example/#x":          {false, false},
		"ftp://hooks.example":               {false, false},
		"//hooks.example":                   {false, false},
		"hooks.example":                     {false, false},
		"https:hooks.example":               {false, false},
		"":                                  {false, false},
		"https://hooks.example/" + strings.Repeat("x", 3000): {false, false},
	} {
		for i, set := range []Targets{targets, all} {
			if err := set.Check(url); (err == nil) != want[i] {
				t.Errorf("%.60q with list %d: %v, want ok %t", url, i, err, want[i])
			}
		}
		if err := (Targets{}).Check(url); err == nil {
			t.Errorf("%.60q without a list is taken", url)
		}
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "0.0.0.0": false, "10.0.0.1": false, "100.64.1.1": false, "127.0.0.2": false, "169.254.1.1": false,
		"172.31.0.1": false, "192.0.0.8": false, "192.168.0.1": false, "198.19.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false,
		"::": false, "::1": false, "::ffff:10.0.0.1": false, "::10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false, "fe80::1%eth0": false, "fc00::1": false, "ff02::1": false,
		"2001:db8::1": false, "::ffff:8.8.8.8": true, "168.63.129.16": false, "169.254.169.254": false, "100.100.100.200": false, "192.0.0.192": false,
		"::ffff:0:10.0.0.1": false, "::ffff:0:127.0.0.1": false, "64:ff9b:1::a00:1": false, "2001::1": false, "2001:0:a00:1::": false, "4000::1": false, "5f00::1": false,
		"fd00:ec2::254": false, "fec0::1": false, "100::1": false, "3fff::1": false, "2a00:1450:4001::1": true,
	} {
		if got := public(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: got %t, want %t", ip, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for pattern, ok := range map[string]bool{"a.example": true, "*.example": true, "127.0.0.1": true, "::1": true, "https://a": false, "a b": false, "*.*": false, "": false, "a:80": false} {
		if err := (Targets{Hosts: []string{pattern}}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if (Targets{Hosts: []string{"*"}}).Validate() != nil || (Targets{Private: []string{"*"}}).Validate() == nil {
		t.Error("* is for public hosts only")
	}
	if _, err := NewSender(nil, nil, Config{Targets: Targets{Hosts: []string{"*"}}}); err == nil {
		t.Error("a sender without secrets was made")
	}
	for _, text := range []string{"", "whsec_x", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 8))} {
		if _, err := ParseSecrets(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
