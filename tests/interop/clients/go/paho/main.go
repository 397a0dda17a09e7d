// Command paho runs one scenario of MQTT with an Eclipse Paho client for Go: `paho 3|5 SCENARIO host:port`.
// 3 is paho.mqtt.golang (MQTT 3.1.1), 5 is paho.golang (MQTT 5.0). It prints "OK SCENARIO" or fails.
package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

const patience = 20 * time.Second

// message is what both libraries hand over of a PUBLISH.
type message struct {
	topic, payload string
	qos            byte
	retained       bool
}

// bag collects what a client has received.
type bag struct {
	lock sync.Mutex
	all  []message
}

func (b *bag) add(m message) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.all = append(b.all, m)
}

func (b *bag) list() []message {
	b.lock.Lock()
	defer b.lock.Unlock()
	return append([]message(nil), b.all...)
}

// wait returns the messages when there are n of them.
func (b *bag) wait(n int) ([]message, error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got := b.list(); len(got) >= n {
			return got, nil
		}
	}
	return nil, fmt.Errorf("%d messages came, not %d: %v", len(b.list()), n, b.list())
}

// setup is how a client connects. A kept session outlives its connection, and the client reconnects by itself.
type setup struct {
	id   string
	kept bool
	will string
}

// client is what the scenarios need of either library.
type client interface {
	subscribe(filter string, qos byte) error
	publish(topic, payload string, qos byte, retain bool) error
	received() *bag
	present() bool
	drop()
	close()
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "paho 3|5 SCENARIO host:port")
		os.Exit(2)
	}
	connect := map[string]func(string, setup) (client, error){"3": connectThree, "5": connectFive}[os.Args[1]]
	scenario := scenarios[os.Args[2]]
	if connect == nil || scenario == nil {
		fmt.Fprintln(os.Stderr, "no such client or scenario")
		os.Exit(2)
	}
	err := scenario(func(s setup) (client, error) { return connect(os.Args[3], s) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("OK", os.Args[2])
}
