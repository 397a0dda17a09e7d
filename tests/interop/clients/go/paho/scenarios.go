package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

type dial func(setup) (client, error)

var scenarios = map[string]func(dial) error{
	"qos": everyQoS, "retained": retained, "will": will, "session": session, "shared": shared,
	"killed1": func(d dial) error { return killed(d, 1) }, "killed2": func(d dial) error { return killed(d, 2) },
}

// pair is a listener that has subscribed, and a sender.
func pair(d dial, listener setup, filter string, qos byte) (client, client, error) {
	l, err := d(listener)
	if err != nil {
		return nil, nil, err
	}
	if err := l.subscribe(filter, qos); err != nil {
		return nil, nil, err
	}
	s, err := d(setup{id: listener.id + "-sender"})
	return l, s, err
}

func publishAll(c client, topic string, qos byte, n int) error {
	for i := range n {
		if err := c.publish(topic, strconv.Itoa(i), qos, false); err != nil {
			return err
		}
	}
	return nil
}

// inOrder asks for exactly 0 to n-1, each once, at a QoS.
func inOrder(b *bag, topic string, qos byte, n int) error {
	got, err := b.wait(n)
	if err != nil {
		return err
	}
	for i, m := range got {
		if (m != message{topic, strconv.Itoa(i), qos, false}) {
			return fmt.Errorf("message %d is %v", i, m)
		}
	}
	if len(got) != n {
		return fmt.Errorf("%d messages instead of %d", len(got), n)
	}
	return nil
}

func everyQoS(d dial) error {
	for qos := byte(0); qos < 3; qos++ {
		topic := fmt.Sprintf("go-qos/%d/temp", qos)
		l, s, err := pair(d, setup{id: "go-qos"}, fmt.Sprintf("go-qos/%d/+", qos), qos)
		if err != nil {
			return err
		}
		if err := publishAll(s, topic, qos, 30); err != nil {
			return err
		}
		if err := inOrder(l.received(), topic, qos, 30); err != nil {
			return fmt.Errorf("QoS %d: %w", qos, err)
		}
		l.close()
		s.close()
	}
	return nil
}

func retained(d dial) error {
	s, err := d(setup{id: "go-keeper"})
	if err != nil {
		return err
	}
	defer s.close()
	for _, value := range []string{"20", "21"} {
		if err := s.publish("go-retained/a", value, 1, true); err != nil {
			return err
		}
	}
	late, _, err := pair(d, setup{id: "go-late"}, "go-retained/#", 1)
	if err != nil {
		return err
	}
	defer late.close()
	got, err := late.received().wait(1)
	if err != nil {
		return err
	}
	if len(got) != 1 || got[0] != (message{"go-retained/a", "21", 1, true}) {
		return fmt.Errorf("retained: %v", got)
	}
	if err := s.publish("go-retained/a", "", 1, true); err != nil {
		return err
	}
	if _, err := late.received().wait(2); err != nil {
		return err
	}
	later, _, err := pair(d, setup{id: "go-later"}, "go-retained/#", 1)
	if err != nil {
		return err
	}
	defer later.close()
	if err := s.publish("go-retained/b", "live", 1, false); err != nil {
		return err
	}
	got, err = later.received().wait(1)
	if err == nil && got[0].payload != "live" {
		err = fmt.Errorf("a removed value came: %v", got)
	}
	return err
}

func will(d dial) error {
	heir, s, err := pair(d, setup{id: "go-heir"}, "go-wills/#", 1)
	if err != nil {
		return err
	}
	defer heir.close()
	defer s.close()
	tidy, err := d(setup{id: "go-tidy", will: "go-wills/tidy"})
	if err != nil {
		return err
	}
	victim, err := d(setup{id: "go-victim", will: "go-wills/victim"})
	if err != nil {
		return err
	}
	tidy.close()
	victim.drop()
	got, err := heir.received().wait(1)
	if err == nil && (len(got) != 1 || got[0] != (message{"go-wills/victim", "gone", 1, false})) {
		err = fmt.Errorf("wills: %v", got)
	}
	return err
}

func session(d dial) error {
	l, s, err := pair(d, setup{id: "go-absent", kept: true}, "go-session/#", 1)
	if err != nil {
		return err
	}
	if l.present() {
		return fmt.Errorf("a new session was said to be present")
	}
	l.close()
	if err := publishAll(s, "go-session/x", 1, 30); err != nil {
		return err
	}
	back, err := d(setup{id: "go-absent", kept: true})
	if err != nil {
		return err
	}
	defer back.close()
	if err := inOrder(back.received(), "go-session/x", 1, 30); err != nil {
		return err
	}
	if !back.present() {
		return fmt.Errorf("the session was not said to be present")
	}
	return nil
}

func shared(d dial) error {
	const n = 60
	one, s, err := pair(d, setup{id: "go-one"}, "$share/go-group/go-shared/#", 1)
	if err != nil {
		return err
	}
	two, _, err := pair(d, setup{id: "go-two"}, "$share/go-group/go-shared/#", 1)
	if err != nil {
		return err
	}
	if err := publishAll(s, "go-shared/x", 1, n); err != nil {
		return err
	}
	for end := time.Now().Add(patience); len(one.received().list())+len(two.received().list()) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d and %d messages came", len(one.received().list()), len(two.received().list()))
		}
	}
	time.Sleep(200 * time.Millisecond)
	times := map[string]int{}
	for _, m := range append(one.received().list(), two.received().list()...) {
		times[m.payload]++
	}
	if len(times) != n || len(one.received().list())+len(two.received().list()) != n {
		return fmt.Errorf("not each once: %v", times)
	}
	if len(one.received().list()) == 0 || len(two.received().list()) == 0 {
		return fmt.Errorf("one member got everything")
	}
	return nil
}

// killed goes on sending while somebody kills the server; it says "going" when 30 more were confirmed, and the next line of
// its input is the answer to that: "on" or "stop".
func killed(d dial, qos byte) error {
	l, err := d(setup{id: "go-listener", kept: true})
	if err != nil {
		return err
	}
	if err := l.subscribe("go-killed/#", qos); err != nil {
		return err
	}
	s, err := d(setup{id: "go-sender", kept: true})
	if err != nil {
		return err
	}
	var stop atomic.Bool
	var count atomic.Int64
	confirmed := make(chan []string, 1)
	go func() {
		var done []string
		for i := 0; !stop.Load(); i++ {
			if s.publish("go-killed/x", strconv.Itoa(i), qos, false) == nil {
				done = append(done, strconv.Itoa(i))
				count.Add(1)
			} else {
				time.Sleep(20 * time.Millisecond)
			}
		}
		confirmed <- done
	}()
	orders := bufio.NewScanner(os.Stdin)
	for order := "on"; order != "stop"; order = orders.Text() {
		for from, end := count.Load(), time.Now().Add(patience); count.Load() < from+30; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("only %d were confirmed", count.Load())
			}
		}
		fmt.Println("going")
		if !orders.Scan() {
			return fmt.Errorf("no orders any more")
		}
	}
	stop.Store(true)
	return arrived(l.received(), <-confirmed, qos)
}

// arrived asks for everything that was confirmed; at QoS 2 once and in order.
func arrived(b *bag, confirmed []string, qos byte) error {
	missing := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		times := map[string]int{}
		last := -1
		for _, m := range b.list() {
			times[m.payload]++
			number, _ := strconv.Atoi(m.payload)
			if qos == 2 && (times[m.payload] > 1 || number < last) {
				return fmt.Errorf("%s came %d times, after %d", m.payload, times[m.payload], last)
			}
			last = number
		}
		missing = ""
		for _, payload := range confirmed {
			if times[payload] == 0 {
				missing = payload
			}
		}
		if missing == "" {
			return nil
		}
	}
	return fmt.Errorf("%s was confirmed and never came", missing)
}
