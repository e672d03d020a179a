package webdemotest

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-go/holdfast/internal/e2e/browser"
)

// keyboard uses the first scene without a mouse. A button that changes keeps the focus, and a
// button that goes leaves it near.
func keyboard(t *testing.T, binary string) {
	d := serve(t, binary)
	p := open(t, screens()["desktop"])
	p.Visit(d.url + "/demo")
	focused := func(id string) string { return fmt.Sprintf(`document.activeElement.id === %q`, id) }
	p.Do(chromedp.Focus("#startboth"), chromedp.KeyEvent(kb.Enter))
	p.Until(10*time.Second, "both run", `document.getElementById("startboth").getAttribute("aria-disabled") === "true"`)
	p.Until(2*time.Second, "the button keeps the focus", focused("startboth"))
	p.Do(chromedp.KeyEvent(kb.Enter)) // does nothing now
	p.Do(chromedp.KeyEvent(kb.Tab))
	p.Until(2*time.Second, "the work time is next", focused("work"))
	p.Until(10*time.Second, "a holder", `document.querySelector("button.strong")`)
	p.Do(chromedp.KeyEvent(kb.Tab))
	p.Until(2*time.Second, "the faults of instance 1 are next", focused("pause1"))
	p.Do(chromedp.KeyEvent(kb.Enter))
	p.Until(4*time.Second, "the focus is on the remedy", focused("resume1"))
	p.Do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	p.Until(4*time.Second, "instance 1 is killed", `!document.getElementById("kill1") && document.getElementById("start1")`)
	p.Until(2*time.Second, "the focus stays in instance 1", `document.getElementById("instance1").contains(document.activeElement)`)
	if n := browser.Eval[int](p, `document.querySelectorAll("#plot1 .block.waits, #plot1 .block.holds, #plot1 .block.stuck").length`); n == 0 || n > 4 {
		t.Errorf("the pressed button has started more: %d segments", n)
	}
}

// motion looks at the present moment between two answers of the server. It moves, unless the
// person prefers less motion.
func motion(t *testing.T, binary string) {
	for _, still := range []bool{false, true} {
		d := serve(t, binary)
		s := screens()["desktop"]
		s.Still = still
		p := open(t, s)
		p.Before(`window.moves = 0; new MutationObserver((list) => {
			for (const m of list) if (/translate\((?!-?0\.00 )/.test(m.target.getAttribute("transform") || "")) window.moves++;
		}).observe(document, { subtree: true, attributes: true, attributeFilter: ["transform"] });`)
		p.Visit(d.url + "/demo")
		press(p, "startboth")
		p.Until(10*time.Second, "a holder", `document.querySelector("button.strong")`)
		began := browser.Eval[int](p, `Number(document.getElementById("plot-scale").dataset.passed)`)
		if !still {
			p.Until(10*time.Second, "the present moment moves", "moves > 30")
			press(p, "pause")
			continue
		}
		p.Until(10*time.Second, "two seconds pass", fmt.Sprintf(`Number(document.getElementById("plot-scale").dataset.passed) > %d + 2000`, began))
		if moves := browser.Eval[int](p, "moves"); moves > 0 {
			t.Errorf("the person prefers less motion, and got %d moves", moves)
		}
	}
}
