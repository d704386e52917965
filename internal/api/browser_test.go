package api

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/execra/tracefleet/internal/api/monitor"
	"github.com/execra/tracefleet/internal/api/viewer"
)

// browser is a page in a real browser; what it complains of and asks for is kept.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("TRACEFLEET_CHROMIUM")
	if program == "" {
		program = "chromium"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("there is no %s, which the pages are tested in; run make setup", program)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 800), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
	)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	var expire context.CancelFunc
	b.ctx, expire = context.WithTimeout(ctx, 3*patience)
	t.Cleanup(expire)
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.problems = append(b.problems, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// until waits for an expression to become true.
func (b *browser) until(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		// An error means that a navigation is under way.
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(() => { try { return !!(%s) } catch { return false } })()`, expression)))
		if ok && err == nil {
			return
		}
		if time.Now().After(deadline) || b.ctx.Err() != nil {
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + " " + document.body.innerText.slice(0, 2000)`))
			b.t.Fatalf("waited in vain for %s: %v; the page says: %s\n%v", expression, err, text, b.problems)
		}
		select {
		case <-b.ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// picture keeps a screenshot where TRACEFLEET_SCREENSHOTS says, for people to look at.
func (b *browser) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("TRACEFLEET_SCREENSHOTS")
	if folder == "" {
		return
	}
	data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// clean fails when the page complained, or asked anything of anybody but its server.
func (b *browser) clean(base string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.t.Error(problem)
	}
	for _, address := range b.requests {
		if !strings.HasPrefix(address, base) && !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "about:") {
			b.t.Errorf("the page asked for %s", address)
		}
	}
}

// TestInTheBrowser signs in, looks at the queues in asynqmon, and traces a program in the viewer, all against the real API.
func TestInTheBrowser(t *testing.T) {
	t.Parallel()
	pages, err := viewer.Handler()
	if err != nil {
		t.Fatal(err)
	}
	f, names := guarded(t, func(c *Config) { c.Pages = pages })
	f.token = names["operate"]
	shown := f.submit(`{"code":"print('<b>secret</b>')","name":"shown to operators"}`)
	b := newBrowser(t)

	b.do(chromedp.Navigate(f.base + monitor.Path))
	b.until(`location.pathname === "/login"`)
	b.picture("login")
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), names["operate"]), chromedp.Click(chromedp.CSS("button")))
	b.until(`location.pathname.startsWith("/monitoring") && document.body.innerText.includes("Queue Size")`)
	b.picture("queues")
	b.do(chromedp.Navigate(f.base + monitor.Path + "/queues/" + queueOf(t, f, shown) + "?status=pending"))
	b.until(`document.body.innerText.includes("shown to operators") && !document.body.innerText.includes("secret")`)
	b.picture("tasks")
	b.do(chromedp.Navigate(f.base + "/docs"))
	b.until(`document.querySelector("#submitTrace") && getComputedStyle(document.querySelector("main")).maxWidth === "960px"`)
	b.picture("docs")

	b.do(chromedp.Navigate(f.base + "/"))
	b.until(`document.querySelector("#code")`)
	b.do(chromedp.SendKeys(chromedp.CSS("#code"), "x=[1]; 1/0"), chromedp.Click(chromedp.CSS("#reviewed")), chromedp.Click(chromedp.CSS("#trace")))
	b.until(`location.pathname.startsWith("/traces/")`)
	id, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.pathname.split("/").pop()`))
	if err != nil {
		t.Fatal(err)
	}
	f.finish(id)
	b.until(`document.querySelector(".verdict")?.innerText.includes("ZeroDivisionError")`)
	b.picture("trace")
	b.clean(f.base)
}

// queueOf finds the queue in which a job's task waits.
func queueOf(t *testing.T, f *fixture, id string) string {
	t.Helper()
	queues := f.request("GET", monitor.Path+"/api/queues", "")
	for part := range strings.SplitSeq(queues.body, `"queue":"`) {
		name, _, ok := strings.Cut(part, `"`)
		if ok && strings.HasPrefix(name, "default") && strings.Contains(f.request("GET", monitor.Path+"/api/queues/"+name+"/pending_tasks", "").body, id) {
			return name
		}
	}
	t.Fatalf("%s waits in no queue: %s", id, queues.body)
	return ""
}
