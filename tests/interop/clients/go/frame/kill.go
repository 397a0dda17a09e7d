// Package frame plays scenes over a kill of the node, whatever their SDK.
package frame

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Lateness is how long what the kill has held up may take to come.
	Lateness = 120 * time.Second
	before   = 200
	after    = 200
)

var (
	isBack atomic.Bool
	back   = make(chan struct{})
)

// Scene is played beside others; it calls arrived when it can stand a kill of the node.
type Scene func(arrived func()) error

// IsBack is true when the node has been killed and is there again.
func IsBack() bool { return isBack.Load() }

// AwaitBack waits for that.
func AwaitBack() { <-back }

// Play runs all scenes at a time, says READY when each can stand a kill of the node, and waits for a line.
func Play(scenes map[string]Scene) error {
	var playing, ready sync.WaitGroup
	var lock sync.Mutex
	var failed []string
	play := func(name string, scene Scene) {
		defer playing.Done()
		var once sync.Once
		arrived := func() { once.Do(ready.Done) }
		err := scene(arrived)
		arrived()
		if err != nil {
			lock.Lock()
			defer lock.Unlock()
			failed = append(failed, fmt.Sprintf("FAILED %s\n%v", name, err))
			return
		}
		fmt.Println("OK", name)
	}
	playing.Add(len(scenes))
	ready.Add(len(scenes))
	for name, scene := range scenes {
		go play(name, scene)
	}
	ready.Wait()
	fmt.Println("READY")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	isBack.Store(true)
	close(back)
	playing.Wait()
	if len(failed) > 0 {
		fmt.Println(strings.Join(failed, "\n"))
		return errors.New("of the scenes")
	}
	return nil
}

// Within waits until something holds, or says that it does not.
func Within(what string, limit time.Duration, holds func() bool) error {
	for end := time.Now().Add(limit); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", limit, what)
		}
	}
	return nil
}

// Stream sends all the time, while others consume: what was acknowledged is seen. Bodies are m0, m1 and so on, of which so many have
// been acknowledged already.
func Stream(arrived func(), acknowledged int, send func(body string) error, seen func() []string) error {
	wanted := map[string]bool{}
	for number := 0; number < acknowledged; number++ {
		wanted[fmt.Sprint("m", number)] = true
	}
	refused, since := 0, 0
	for number := acknowledged; since < after; number++ {
		back, body := IsBack(), fmt.Sprint("m", number)
		if err := send(body); err != nil {
			refused++
			if refused > 10_000 {
				return fmt.Errorf("the producer does not come back: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		} else {
			wanted[body] = true
			if back {
				since++
			}
		}
		if len(wanted) >= before {
			arrived()
		}
		if !back {
			time.Sleep(5 * time.Millisecond)
		}
	}
	missing := func() int {
		found := map[string]bool{}
		for _, body := range seen() {
			found[body] = true
		}
		count := 0
		for body := range wanted {
			if !found[body] {
				count++
			}
		}
		return count
	}
	if err := Within("all that was acknowledged", Lateness, func() bool { return missing() == 0 }); err != nil {
		return fmt.Errorf("%w: %d of %d are missing", err, missing(), len(wanted))
	}
	fmt.Println("go:", len(wanted), "acknowledged,", refused, "sends failed,", len(seen()), "deliveries")
	return nil
}
