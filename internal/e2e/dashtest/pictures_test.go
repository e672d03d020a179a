package dashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/redishold"
)

// program returns a Locker of a program that names itself as "holdfast run" does.
func (s *site) program(note string) *holdfast.Locker {
	s.Helper()
	return holdfast.New(redishold.New(s.connect(), nil), &holdfast.Options{Note: note})
}

// queue lets m wait in the background until the test ends.
func (s *site) queue(m *holdfast.Mutex) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l, err := m.Lock(ctx); err == nil {
			_ = l.Unlock()
		}
	}()
	s.Cleanup(func() { cancel(); <-done })
}

// shop takes the locks of the pictures.
func (s *site) shop() {
	s.Helper()
	ctx := s.Context()
	ci := s.program("deploy.sh@ci-7:4121 (release 2.14) team=shop")
	s.hold(ci.Lock(ctx, "deploy/prod"))
	next := s.program("deploy.sh@ci-9:880 (hotfix) team=shop")
	s.queue(next.Mutex("deploy/prod"))
	web := s.program("checkout@web-1:310")
	for _, item := range []string{"stock:42", "stock:77", "stock:1093"} {
		s.hold(web.Lock(ctx, item))
	}
	s.hold(s.program("report@batch-2:1207 (nightly)").Lock(ctx, "report/sales"))
	for _, host := range []string{"worker-1:91", "worker-2:92", "worker-3:93"} {
		worker := s.program("invoices@" + host)
		if host == "worker-1:91" {
			s.hold(worker.FairMutex("billing").Lock(ctx))
			continue
		}
		s.queue(worker.FairMutex("billing"))
		time.Sleep(50 * time.Millisecond) // the order of the queue
	}
	for i := range 3 {
		s.hold(s.program(fmt.Sprintf("backup@db-%d:77", i+1)).Semaphore("backups", 4).Acquire(ctx))
	}
	for i := range 2 {
		s.hold(s.program(fmt.Sprintf("prices@web-%d:52", i+1)).RWMutex("prices").Read.Lock(ctx))
	}
	s.javaLock("orders:7", java+":42", 30*time.Minute)
}

// disguise lets all registrations name the process of their note: the locks of the
// pictures belong to many processes, and those of the test to one.
func (s *site) disguise() {
	s.Helper()
	for _, key := range s.redis.Strings("KEYS", "holdfast:client:????????-*") {
		var client map[string]any
		decoder := json.NewDecoder(strings.NewReader(s.redis.String("GET", key)))
		decoder.UseNumber()
		if err := decoder.Decode(&client); err != nil {
			s.Fatal(err)
		}
		var program, host string
		var pid int
		note, _ := client["note"].(string)
		process, _, _ := strings.Cut(note, " ")
		if program, host, _ = strings.Cut(process, "@"); host == "" {
			continue
		}
		host, number, _ := strings.Cut(host, ":")
		pid, _ = strconv.Atoi(number)
		client["program"], client["host"], client["pid"] = program, host, pid
		text, err := json.Marshal(client)
		if err != nil {
			s.Fatal(err)
		}
		s.redis.Do("SET", key, string(text), "KEEPTTL")
	}
}

// TestPictures makes the pictures of the documents. "make pictures" runs it.
func TestPictures(t *testing.T) {
	if os.Getenv("HOLDFAST_SCREENSHOTS") == "" {
		t.Skip("HOLDFAST_SCREENSHOTS names no folder for pictures")
	}
	s := start(t, &dash.Options{AllowUnlock: true, Authorize: everybodyOperates, Store: "redis://shop-production:6379"})
	p := open(t, desktop())
	s.shop()
	for range 10 { // before the dashboard sees a name of this process
		time.Sleep(500 * time.Millisecond)
		s.disguise()
	}
	p.Visit(s.url(""))
	p.Until(20*time.Second, "the waiter", "document.querySelector('#rows') && document.querySelector('#rows').innerText.includes('prices')")
	for range 50 { // for hold times, waiters and a renewal of each lease
		time.Sleep(500 * time.Millisecond)
		s.disguise()
	}
	p.Shot("dashboard-locks")
	p.Visit(s.url("lock?name=billing"))
	p.Until(10*time.Second, "the queue", "document.querySelector('#state').innerText.includes('worker-3')")
	p.Shot("dashboard-lock")
	p.Visit(s.url("lock?name=deploy%2Fprod"))
	p.Do(chromedp.Click("a.danger"))
	p.Until(5*time.Second, "the form", "document.querySelector('#confirm0')")
	p.Shot("dashboard-unlock")
	small := open(t, phone())
	small.Visit(s.url(""))
	small.Until(10*time.Second, "the locks", "document.querySelector('#rows') && document.querySelector('#rows').innerText.includes('prices')")
	small.Shot("dashboard-phone")
}
