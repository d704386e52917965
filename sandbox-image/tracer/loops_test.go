package tracer_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// loopsSource has loops in every form, each with how often its body is entered.
const loopsSource = `
def header_of_its_own(n):
    while (  # 3
        n > 0
    ):
        n -= 1
def header_and_continue(n):
    while (  # 3
        n > 0
    ):
        n -= 1
        continue
def both_apart(n):
    while (  # 3
        n
        > 0
    ): n -= 1; continue
def two_tests_apart(n):
    while (n > 0 and  # 3
           n != 9):
        n -= 1
        continue
def two_tests_and_body(n):
    while (n > 0 and  # 3
           n != 9): n -= 1; continue
def one_line(n):
    while n: n -= 1  # 3
def one_line_and_continue(n):
    while n: n -= 1; continue  # 3
def never(n):
    while n > 3: n -= 1; continue  # 0
def two_tests(n):
    while n and n != -3: n -= 1; continue  # 3
def either_test(n):
    while n > 5 or n > 0: n -= 1; continue  # 3
def chained(n):
    while 0 < n < 5: n -= 1; continue  # 3
def named(n):
    while (c := n) and c > 0: n -= 1; continue  # 3
def tests_in_the_body(n):
    while n: n -= 1; (n or n); assert n >= 0; continue  # 3
def continued_line(n):
    while n and "  # 3": n -= 1; \
        continue
def endless(n):
    while True:  # 3
        n -= 1
        if n == 0: break
        continue
def endless_on_one_line(n):
    while 1: n -= 1; (n or 1 / 0); continue  # 3
def body_apart(n):
    while n:  # 3
        n -= 1; continue
def inner(n):
    for i in range(n):  # 3
        m = i
        while m: m -= 1; continue  # 3
    while n:  # 3
        n -= 1
        if n % 2: continue
        n
def one_line_for(n):
    for i in range(n): i; continue  # 3
for f in [v for v in vars().values() if type(v) is type(never)]:  # 19
    try:
        f(3)
    except ZeroDivisionError:
        pass
`

// TestLoops checks how often each loop is said to have been entered, also where header and body share lines.
func TestLoops(t *testing.T) {
	t.Parallel()
	want := map[int]int64{}
	for i, line := range strings.Split(loopsSource, "\n") {
		if m := regexp.MustCompile(`(?:while|for) .*# (\d+)`).FindStringSubmatch(line); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			want[i+1] = n
		}
	}
	p := script(loopsSource)
	got := map[int]int64{}
	for _, l := range run(t, map[string]program{"loops": p})["loops"].recording(p).Summary.Loops {
		got[l.Line] = l.Iterations
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries by line (-want +got):\n%s", diff)
	}
}
