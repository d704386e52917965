package viewer

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/execra/tracefleet/internal/job"
)

func TestSelfContained(t *testing.T) {
	t.Parallel()
	f := readFixture(t, "markup")
	page, err := SelfContained(f.result(t), job.Job{Entrypoint: "markup.py", Files: f.Files})
	if err != nil {
		t.Fatal(err)
	}
	again, err := SelfContained(f.result(t), job.Job{Entrypoint: "markup.py", Files: f.Files})
	if err != nil || !bytes.Equal(page, again) {
		t.Errorf("the same run gives another page (%v)", err)
	}
	text := string(page)
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("got %d script elements, want 2", n)
	}
	if strings.Contains(text, "<img") || strings.Contains(text, "'value'</script>") {
		t.Error("the program's own text is in the page's markup")
	}
	if !strings.Contains(text, "<title>ValueError: &lt;script&gt;") {
		t.Error("the title is not the escaped headline")
	}
	for _, outside := range []string{`src="`, `href="/`, `url(`, "@import"} {
		if strings.Contains(strings.ReplaceAll(text, `href="data:,"`, ""), outside) {
			t.Errorf("the page refers to something outside: %s", outside)
		}
	}
}

// TestStandalonePolicyNamesItsOwnParts checks the hashes against the text between the tags.
func TestStandalonePolicyNamesItsOwnParts(t *testing.T) {
	t.Parallel()
	page, err := SelfContained(job.Result{Schema: job.ResultSchema, Status: job.StatusOK}, job.Job{})
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile(`(?s)<script>(.*)</script>`).FindSubmatch(page)
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindSubmatch(page)
	if script == nil || style == nil {
		t.Fatal("the page lacks its script or style")
	}
	if want := policyFor(string(style[1]), string(script[1])); !bytes.Contains(page, []byte(want)) {
		t.Errorf("the page has another policy than %s", want)
	}
}
