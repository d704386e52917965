package viewer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestLayouts looks at the page from a phone to a wall: nothing sticks out at the side, every
// control can be reached and has a name. With TRACEFLEET_SCREENSHOTS set to a folder, pictures are kept there.
func TestLayouts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, size := range [][2]int{{360, 740}, {768, 1024}, {1280, 800}, {2560, 1440}, {3840, 2160}} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(fmt.Sprintf("%d-%s", size[0], theme), func(t *testing.T) {
				p := newTab(t, s.URL, size[0], size[1])
				setTheme(p, theme)
				for name, path := range map[string]string{"run": "/traces/two_files", "editor": "/", "tree": "/traces/tree#s=100&t=calls", "syntax": "/traces/syntax_error", "effects": "/traces/effects#t=result", "gap": "/traces/gap#t=loop", "objects": "/traces/task_waits", "missing": "/traces/never-was"} {
					p.open(path)
					p.until(`document.querySelector(".verdict, .confirm, .problem")`)
					if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > size[0] {
						t.Errorf("%s is %d wide on a screen of %d", name, wide, size[0])
					}
					if long := eval[int](p, `document.querySelector(".view") ? document.documentElement.scrollHeight : 0`); long > size[1] {
						t.Errorf("%s is %d long on a screen of %d: it scrolls beside its panels", name, long, size[1])
					}
					for _, fault := range eval[[]string](p, unnamed) {
						t.Errorf("%s: without a name: %s", name, fault)
					}
					for _, fault := range eval[[]string](p, pale) {
						t.Errorf("%s: hard to read: %s", name, fault)
					}
					shoot(p, fmt.Sprintf("%s-%d-%s", name, size[0], theme))
				}
				p.clean()
			})
		}
	}
}

// unnamed lists the controls that a screen reader would have no name for.
const unnamed = `[...document.querySelectorAll("button, a, input, textarea, select, [role=tab], [role=treeitem]")]
	.filter((e) => e.checkVisibility() && !e.closest("[aria-hidden=true]"))
	.filter((e) => !(e.innerText?.trim() || e.getAttribute("aria-label") || e.labels?.length || e.title))
	.map((e) => e.outerHTML.slice(0, 120))`

// pale lists texts whose contrast with their background is under 4.5, or 3 where it is meant to recede.
const pale = `(() => {
	const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const parse = (c) => (c.match(/[\d.]+/g) ?? []).map(Number);
	const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const back = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
	const faults = [];
	for (const e of document.querySelectorAll("h1, h2, h3, p, .quiet, th, td, button:not(:disabled), label, .value, .notes span, summary")) {
		if (!e.checkVisibility() || !e.innerText?.trim() || e.closest("[aria-hidden=true], :disabled, .sr")) continue;
		const a = light(parse(getComputedStyle(e).color)), b = light(back(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) faults.push(ratio.toFixed(2) + " " + e.className + " " + e.innerText.slice(0, 40));
	}
	return [...new Set(faults)].slice(0, 10);
})()`

func setTheme(p *tab, theme string) {
	p.t.Helper()
	feature := &emulation.MediaFeature{Name: "prefers-color-scheme", Value: theme}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{feature}})
	if err != nil {
		p.t.Fatal(err)
	}
}

func shoot(p *tab, name string) {
	p.t.Helper()
	folder := os.Getenv("TRACEFLEET_SCREENSHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, "/", "-")+".png"), picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
