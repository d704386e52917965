package viewer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/execra/tracefleet/internal/job"
	"github.com/execra/tracefleet/internal/render"
	"github.com/execra/tracefleet/internal/trace"
)

func TestUnitTestsOfTheModel(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 800, 600)
	if err := chromedp.Do(p.ctx, chromedp.Navigate(p.base+"/unit")); err != nil {
		t.Fatal(err)
	}
	p.until(`window.unit`)
	outcome := eval[struct {
		Passed   int      `json:"passed"`
		Failures []string `json:"failures"`
	}](p, `unit.runAll()`)
	for _, failure := range outcome.Failures {
		t.Error(failure)
	}
	if outcome.Passed == 0 {
		t.Error("no test ran")
	}
	p.clean()
}

// TestLongPathsLeaveRoomForFunctions checks that the name of a function in the stack is not broken by a long path beside it.
func TestLongPathsLeaveRoomForFunctions(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/task_waits")
	p.until(`document.querySelector(".stack-row")`)
	lines := eval[float64](p, `(() => {
		const [name, path] = document.querySelector(".stack-row").children;
		const before = name.offsetHeight;
		path.textContent = "a_folder/and_in_it/a_file_with_a_name.py:1234";
		return name.offsetHeight / before;
	})()`)
	if lines != 1 {
		t.Errorf("the name is %v times as high beside a long path", lines)
	}
	p.clean()
}

// TestStoppedCoroutineWaits checks that the page has the text view's word for a coroutine that is suspended.
func TestStoppedCoroutineWaits(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/task_waits")
	p.until(`document.querySelector(".moment")?.innerText.includes("consumer waits")`)
	p.clean()
}

// TestModelAgreesWithTheTextView replays every recorded run with the page's
// model and with package trace: the same values, texts and words must come out.
func TestModelAgreesWithTheTextView(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 800, 600)
	if err := chromedp.Do(p.ctx, chromedp.Navigate(p.base+"/unit")); err != nil {
		t.Fatal(err)
	}
	p.until(`window.unit`)
	paths, err := filepath.Glob("../../render/testdata/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, path := range append(paths, "markup.json", "tree.json") {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		f := readFixture(t, name)
		document, err := json.Marshal(string(f.Result))
		if err != nil {
			t.Fatal(err)
		}
		got := eval[struct {
			Steps []string `json:"steps"`
			Words []string `json:"words"`
		}](p, fmt.Sprintf(`unit.dump(%s)`, document))
		if diff := cmp.Diff(replay(f.result(t)), got.Steps); diff != "" {
			t.Errorf("%s (-package trace +page):\n%s", name, diff)
		}
		if want := render.Verdict(f.result(t)); got.Words[0] != want {
			t.Errorf("%s: the page says %q, the text view %q", name, got.Words[0], want)
		}
	}
	p.clean()
}

// replay folds the events as the text view does, and writes what each changed.
func replay(r job.Result) []string {
	if r.Trace == nil {
		return []string{}
	}
	objects := trace.Objects{}
	type frame struct {
		order  []string
		values map[string]trace.Value
	}
	frames := map[int]*frame{}
	lines := []string{}
	gaps := r.Trace.Gaps
	for _, e := range r.Trace.Events {
		for len(gaps) > 0 && gaps[0].AfterSeq < e.Seq {
			if gaps[0].Skipped != 0 { // what was known before it may no longer hold
				objects = trace.Objects{}
				clear(frames)
			}
			gaps = gaps[1:]
		}
		objects.Apply(e)
		f := frames[e.Frame]
		if f == nil {
			f = &frame{values: map[string]trace.Value{}}
			frames[e.Frame] = f
		}
		var changed []string
		for _, v := range e.Vars {
			changed = append(changed, v.Name)
			if !slices.Contains(f.order, v.Name) {
				f.order = append(f.order, v.Name)
			}
			f.values[v.Name] = v.Value
			if trace.Deleted(v.Value) {
				delete(f.values, v.Name)
			}
		}
		for _, entry := range e.Heap {
			changed = append(changed, holders(f.order, f.values, objects, entry.Ref, changed)...)
		}
		parts := []string{fmt.Sprintf("%d %s", e.Seq, e.Kind)}
		for _, name := range changed {
			if v, known := f.values[name]; known {
				parts = append(parts, name+"="+objects.Text(v, 60))
			} else {
				parts = append(parts, name+" deleted")
			}
		}
		if len(e.Value) > 0 {
			parts = append(parts, "value "+objects.Text(e.Value, 80))
		}
		lines = append(lines, strings.Join(parts, " | "))
	}
	return lines
}

func holders(order []string, values map[string]trace.Value, objects trace.Objects, ref int, known []string) []string {
	var direct, deep []string
	for _, name := range order {
		v, ok := values[name]
		switch {
		case !ok:
		case trace.IsReference(v, ref):
			direct = append(direct, name)
		case objects.Reaches(v, ref):
			deep = append(deep, name)
		}
	}
	if len(direct) == 0 {
		direct = deep
	}
	return slices.DeleteFunc(direct, func(name string) bool { return slices.Contains(known, name) })
}

func TestOpensAtTheFailureAndSteps(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/two_files")
	p.until(`document.querySelector(".current.failing")`)
	if got := eval[string](p, `document.querySelector("h1").innerText`); !strings.Contains(got, "Ended by KeyError: 'jam' (shop/prices.py:6 in discount_for)") {
		t.Errorf("verdict: got %q", got)
	}
	if got := p.step(); got != 34 {
		t.Errorf("opened at step %d, want 34", got)
	}
	steps := []struct {
		name string
		keys string
		mods []chromedp.KeyOption
		want int
	}{
		{"home", kb.Home, nil, 1},
		{"forward", kb.ArrowRight, nil, 2},
		{"over the imports", kb.ArrowRight, []chromedp.KeyOption{chromedp.KeyModifiers(chromedp.ModifierShift)}, 10},
		{"back", kb.ArrowLeft, nil, 9},
		{"end", kb.End, nil, 39},
		{"exception", "e", nil, 34},
		{"undo the jump", "u", nil, 39},
		{"exception again", "e", nil, 34},
		{"out to the caller", kb.ArrowUp, []chromedp.KeyOption{chromedp.KeyModifiers(chromedp.ModifierAlt)}, 36},
	}
	for _, s := range steps {
		p.press(s.keys, s.mods...)
		p.until(fmt.Sprintf(`document.querySelector(".track input").value == %d`, s.want))
	}
	p.until(`location.hash.startsWith("#s=36")`)
	p.clean()
}

func TestWhyThisValue(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/two_files")
	p.click(`[aria-label="Why is item so?"]`)
	p.until(`document.querySelector(".cause .quote")?.innerText === "return price - discount_for(item)"`)
	p.click(`.cause .operand`)
	p.until(`document.querySelectorAll(".cause").length === 2`)
	p.click(`.why li:nth-child(2) .operand`)
	p.until(`document.querySelectorAll(".cause .quote")[2]?.innerText === "for item, price in basket.items():"`)
	p.click(`.why li:nth-child(3) .place .link`)
	p.until(`document.querySelector(".current code")?.innerText.startsWith("for item, price")`)
	if got := eval[string](p, `location.hash`); !strings.Contains(got, "v=item") && !strings.Contains(got, "v=basket") {
		t.Errorf("the address does not hold the name: %s", got)
	}
	p.clean()
}

func TestLinesLoopsHistoryAndSearch(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 900)
	p.open("/traces/two_files#s=20")
	p.click(`#tab-loop`)
	p.until(`document.querySelectorAll(".passes tbody tr").length === 3 || document.querySelector(".loop, .tab-loop .quiet")`)
	p.press("e")
	p.click(`.stack li:nth-child(3) button`)
	p.until(`document.querySelectorAll(".passes tbody tr").length === 3`)
	if got := eval[string](p, `document.querySelector(".passes .broken").innerText.replace(/\s+/g, " ").trim()`); got != "3 ✗ 'jam' 5 6" {
		t.Errorf("the last pass: got %q", got)
	}
	p.click(`tr:nth-child(2) .name, .vars .name`)
	p.until(`document.querySelector(".moments")`)
	p.click(`li[data-line="5"] .gutter`)
	p.until(`document.querySelector(".current")?.dataset.line === "5"`)
	p.press("/")
	p.until(`document.querySelector("dialog[open] input")`)
	if err := chromedp.Do(p.ctx, chromedp.SendKeys(chromedp.CSS(".search-field"), "bread")); err != nil {
		t.Fatal(err)
	}
	p.until(`document.querySelectorAll(".found li").length > 2`)
	p.click(`.found li:nth-child(1) button`)
	p.until(`!document.querySelector("dialog")`)
	p.clean()
}

func TestPlaceIsInTheAddress(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/two_files#s=19&f=1&v=total&p=total,price&t=calls")
	p.until(`document.querySelector("#tab-calls")?.getAttribute("aria-selected") === "true"`)
	if got := p.step(); got != 19 {
		t.Errorf("got step %d", got)
	}
	got := eval[[]string](p, `[...document.querySelectorAll(".values h3")].map((h) => h.innerText)`)
	if !slices.Contains(got, "Pinned") || !slices.Contains(got, "Variables") {
		t.Errorf("sections: got %q", got)
	}
	if n := eval[int](p, `document.querySelectorAll(".lines .v.selected").length`); n != 3 {
		t.Errorf("got %d marked names, want 3", n)
	}
	p.open("/traces/two_files#s=99999&f=77&t=nonsense&v=%E0%A4%A")
	p.until(`document.querySelector(".track input").value == 39`)
	p.clean()
}

func TestTheNoticeMustBeConfirmed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := newTab(t, s.URL, 1280, 800)
	p.open("/")
	if got := eval[string](p, `document.querySelector(".notice").innerText`); got != job.SandboxNotice {
		t.Errorf("notice: got %q", got)
	}
	type_ := func(selector, text string) {
		t.Helper()
		if err := chromedp.Do(p.ctx, chromedp.SendKeys(chromedp.CSS(selector), text)); err != nil {
			t.Fatal(err)
		}
	}
	disabled := `document.querySelector("#trace").disabled`
	p.until(`document.querySelector("#lacking").innerText === "There is no program yet."`)
	p.click("#reviewed")
	p.until(disabled) // there is no program yet
	type_("#code", "print(1)")
	if eval[bool](p, `document.querySelector("#reviewed").checked`) {
		t.Error("a change of the program did not undo its review")
	}
	p.until(disabled)
	p.until(`document.querySelector("#lacking").innerText.includes("tick the box")`)
	p.click("#reviewed")
	p.until("!" + disabled)
	p.click(`summary`)
	type_(`.limit-fields label:nth-child(1) input`, "0")
	p.until(disabled)
	p.click("#reviewed")
	p.click("#trace")
	p.until(`document.querySelector(".problem")?.innerText.includes("limits.wall_ms: must be at least 100")`)
	p.until(`document.querySelector(".limit-fields [aria-invalid=true]")?.parentElement.innerText.includes("0.1 s to 300 s")`)
	type_(`.limit-fields label:nth-child(1) input`, kb.Backspace+"2.5")
	type_(`.options textarea`, "a line")
	p.click("#reviewed")
	p.click("#trace")
	p.until(`location.pathname === "/traces/two_files"`)
	p.until(`document.querySelector(".verdict")`)
	s.mu.Lock()
	got := s.submitted[len(s.submitted)-1]
	s.mu.Unlock()
	want := map[string]any{
		"language": "python", "entrypoint": "main.py", "files": map[string]any{"main.py": "print(1)"}, "stdin": "a line", "args": []any{},
		"limits": map[string]any{"wall_ms": 2500.0}, "queue": "interactive",
		"trace": map[string]any{"mode": "full", "values": true, "include": []any{"."}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the job (-want +got):\n%s", diff)
	}
	document, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Decode(strings.NewReader(string(document)), job.MaxLimits()); err != nil {
		t.Errorf("the fleet would refuse it: %v", err)
	}
	p.clean()
}

func TestEditAndCompare(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/mutable_default")
	p.click(`[aria-label^="Edit the program"]`)
	p.until(`document.querySelector("#code")?.value.includes("def collect(value, into=[])")`)
	// The run's own limits come along, those of the fleet do not.
	p.until(`[...document.querySelectorAll(".limit-fields input")].map((e) => e.value).join() === "2.5,,,,,,,,"`)
	p.click("#reviewed")
	p.click("#trace")
	p.until(`document.querySelector(".sentence")?.innerText.startsWith("The")`)
	p.clean()
}

// TestCompareWithASavedFile takes the other run from a page that stands alone.
func TestCompareWithASavedFile(t *testing.T) {
	t.Parallel()
	f := readFixture(t, "two_files")
	page, err := SelfContained(f.result(t), job.Job{Entrypoint: "main.py", Files: f.Files})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/two_files#t=compare")
	p.until(`document.querySelector(".compare input[type=file]")`)
	if err := chromedp.Do(p.ctx, chromedp.SetUploadFiles(chromedp.CSS(".compare input[type=file]"), []string{file})); err != nil {
		t.Fatal(err)
	}
	p.until(`document.querySelector(".sentence")?.innerText === "The two runs do the same, as far as they are recorded."`)
	p.clean()
}

func TestDroppedFiles(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/")
	eval[bool](p, `(() => {
		const data = new DataTransfer();
		data.items.add(new File(["import helper\n"], "main.py"));
		data.items.add(new File(["x = 1\n"], "helper.py"));
		document.querySelector(".editor").dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data }));
		return true;
	})()`)
	p.until(`document.querySelector("#code").value === "import helper\n" && document.querySelectorAll(".file:not(.add)").length === 2`)
	p.clean()
}

func TestMissingRun(t *testing.T) {
	t.Parallel()
	p := newTab(t, newServer(t).URL, 1280, 800)
	p.open("/traces/never-was")
	p.until(`document.querySelector("[role=alert]")?.innerText.includes("There is no such run")`)
}

// TestHostileProgramDoesNothing opens a run whose names, values, output and
// exception are markup and code, as a page and as a file, and visits every tab.
func TestHostileProgramDoesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	f := readFixture(t, "markup")
	page, err := SelfContained(f.result(t), job.Job{Entrypoint: "markup.py", Files: f.Files})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"served": "/traces/markup", "file": "file://" + file} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTab(t, s.URL, 1280, 800)
			p.open(address)
			p.until(`document.querySelector(".current.failing")`)
			elements := eval[int](p, `document.querySelectorAll("script").length`)
			for _, tab := range []string{"output", "calls", "loop", "exceptions", "compare", "result"} {
				p.click("#tab-" + tab)
				p.until(fmt.Sprintf(`document.querySelector("#tab-%s").getAttribute("aria-selected") === "true"`, tab))
				p.press(kb.Home)
				p.press(kb.End)
			}
			p.click(`#tab-output`)
			p.until(`document.querySelector(".output").innerText.includes("<svg/onload=owned=4>")`)
			found := eval[string](p, `JSON.stringify([
				typeof owned, {}.owned ?? null, document.querySelectorAll("script").length,
				document.querySelectorAll("#app img, #app b, #app style, #app iframe, #app svg[onload]").length, getComputedStyle(document.body).display])`)
			if want := fmt.Sprintf(`["undefined",null,%d,0,"block"]`, elements); found != want {
				t.Errorf("got %s, want %s", found, want)
			}
			p.clean()
		})
	}
}

// TestTenThousandEvents prints how long a large run takes; the times depend on
// the machine, so they are told and not judged.
func TestTenThousandEvents(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := newTab(t, s.URL, 1280, 800)
	p.open("/traces/sort")
	p.until(`document.querySelector(".current")`)
	took := eval[float64](p, `performance.now()`)
	if got := eval[string](p, `document.querySelector(".step-field .quiet").innerText`); got != "of 10,500" {
		t.Errorf("got %q", got)
	}
	steps := eval[float64](p, `new Promise((done) => {
		const slider = document.querySelector(".track input");
		const began = performance.now();
		let n = 0;
		const go = () => {
			if (n === 50) return done((performance.now() - began) / n);
			slider.value = String(5000 + n++ * 7);
			slider.dispatchEvent(new Event("input", { bubbles: true }));
			requestAnimationFrame(go);
		};
		go();
	})`)
	f := readFixture(t, "sort")
	page, err := SelfContained(f.result(t), job.Job{Entrypoint: "sort.py", Files: f.Files})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("10,500 events: shown %.0f ms after navigation, a step and its frame %.1f ms; as one file %d bytes", took, steps, len(page))
	p.press(kb.End)
	p.until(`document.querySelector(".track input").value == 10500`)
	p.clean()
}
