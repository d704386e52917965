package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/ledger"
	"github.com/execra/tracefleet/internal/redistest"
	"github.com/execra/tracefleet/internal/webhook"
)

// TestWebhook submits jobs with callbacks and follows their deliveries.
func TestWebhook(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	to := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("traceparent") + " " + string(body)
	}))
	defer to.Close()
	server := redistest.Start(t, redistest.Options{})
	rdb := server.Client()
	book, err := ledger.New(rdb, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	targets := webhook.Targets{Private: []string{"127.0.0.1"}}
	store := webhook.NewStore(rdb)
	sender, err := webhook.NewSender(store, book, webhook.Config{Targets: targets, Secrets: webhook.Secrets{[]byte(strings.Repeat("k", 32))}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sender.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	f := start(t, server, func(c *Config) { c.Hooks, c.Targets, c.Poke = store, targets, sender.Poke })

	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	body := `{"code":"1","id":"a","callback_url":"` + to.URL + `/hook"}`
	for range 2 {
		if a := f.post("/traces", body, "traceparent", parent); a.status != 202 {
			t.Fatalf("submit: got %d %s", a.status, a.body)
		}
	}
	var d WebhookDocument
	f.get("/traces/a/webhook").json(t, &d)
	if d.State != "waiting" || d.URL != to.URL+"/hook" || d.EventID == "" {
		t.Errorf("before the end: got %+v", d)
	}
	f.finish("a")
	if event := <-got; !strings.HasPrefix(event, parent+" ") || !strings.Contains(event, `"id":"a"`) || !strings.Contains(event, "ZeroDivisionError") {
		t.Errorf("got %s", event)
	}
	eventually(t, "delivered", func() (bool, any) { f.get("/traces/a/webhook").json(t, &d); return d.State == "delivered", d })
	event := d.EventID
	if a := f.post("/traces/a/webhook", ""); a.status != 202 {
		t.Errorf("replay: got %d %s", a.status, a.body)
	}
	<-got
	eventually(t, "delivered again", func() (bool, any) {
		f.get("/traces/a/webhook").json(t, &d)
		return d.State == "delivered" && d.EventID == event, d
	})

	for url, want := range map[string]string{"http://10.0.0.1/": "list of hosts", "not a url": "absolute URL", "https://u:p@127.0.0.1/": "password", to.URL + "/other": "another callback"} {
		a := f.post("/traces", `{"code":"1","id":"a","callback_url":"`+url+`"}`)
		if a.status != 422 || a.problem(t).Errors[0].Location != "body.callback_url" || !strings.Contains(a.body, want) {
			t.Errorf("%s: got %d %s", url, a.status, a.body)
		}
	}
	// A job that is refused leaves no callback behind.
	f.submit(`{"code":"1","id":"taken"}`)
	if a := f.post("/traces", `{"code":"2","id":"taken","callback_url":"`+to.URL+`"}`); a.status != 422 {
		t.Errorf("a taken id: got %d", a.status)
	}
	if a := f.get("/traces/taken/webhook"); a.status != 404 {
		t.Errorf("its webhook: got %d %s", a.status, a.body)
	}
}
