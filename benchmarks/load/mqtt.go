package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	aheadMax = 2048            // messages of one publisher that its subscribers have not got yet
	silence  = 5 * time.Second // without an arrival: what is missing is lost
	sampled  = 16              // one latency in so many, where the rate is not fixed
)

var started = time.Now()

func ones(word uint64) int { return bits.OnesCount64(word) }

// flow is one topic, or one shared filter: its publishers and subscribers, and how far they have come.
type flow struct {
	o           *Options
	topics      []string
	filter      string
	subscribers int
	shared      bool
	count       int
	first       int

	arrived   atomic.Int64
	wake      chan struct{}
	ledgers   []*ledger
	latencies [][]time.Duration
}

// mqttPair is one publisher and one subscriber with a topic of their own.
func mqttPair(o *Options, id, count int) Result {
	topic := fmt.Sprintf("%s/%d", o.Topic, id)
	f := &flow{o: o, topics: []string{topic}, filter: topic, subscribers: 1, count: count, first: id}
	return f.run()
}

// mqttFanOut is o.Publishers publishers of one topic and many subscribers of it; a delivery counts, not a publish.
func mqttFanOut(o *Options, _, count int) Result {
	f := &flow{o: o, filter: o.Topic + "/all", subscribers: o.Subscribers}
	for range o.Publishers {
		f.topics = append(f.topics, f.filter)
	}
	f.count = count / o.Subscribers / o.Publishers
	return f.run()
}

// mqttFanIn is o.Publishers publishers and one group of subscribers that share them.
func mqttFanIn(o *Options, _, count int) Result {
	f := &flow{o: o, filter: "$share/" + o.Group + "/" + o.Topic + "/#", subscribers: o.Subscribers, shared: true}
	for i := range o.Publishers {
		f.topics = append(f.topics, fmt.Sprintf("%s/%d", o.Topic, i))
	}
	f.count = count / o.Publishers
	return f.run()
}

// expected is how many deliveries are due.
func (f *flow) expected() int {
	return f.count * len(f.topics) * f.copies()
}

// copies is how many subscribers get each message.
func (f *flow) copies() int {
	if f.shared {
		return 1
	}
	return f.subscribers
}

func (f *flow) run() Result {
	f.wake = make(chan struct{}, 1)
	subscribers, publishers, err := f.open()
	defer func() {
		for _, c := range append(subscribers, publishers...) {
			c.Close()
		}
	}()
	if err != nil {
		return Result{Errors: f.expected(), Note: err.Error()}
	}
	var reading, writing sync.WaitGroup
	for i, c := range subscribers {
		reading.Add(1)
		go func() {
			defer reading.Done()
			f.subscribe(c, i)
		}()
	}
	for i, c := range publishers {
		writing.Add(1)
		go func() {
			defer writing.Done()
			f.publish(c, i)
		}()
	}
	writing.Wait()
	for last, at := int64(-1), time.Now(); int(f.arrived.Load()) < f.expected() && time.Since(at) < silence; {
		if now := f.arrived.Load(); now != last {
			last, at = now, time.Now()
		}
		time.Sleep(time.Millisecond)
	}
	for _, c := range subscribers {
		c.SetReadDeadline(time.Now())
	}
	reading.Wait()
	return f.result()
}

func (f *flow) open() (subscribers, publishers []*mqttConn, err error) {
	for i := range f.subscribers {
		c, err := dialMQTT(f.o.Addr, fmt.Sprintf("load-sub-%d-%d", f.first, i), i)
		if err != nil {
			return subscribers, nil, err
		}
		subscribers = append(subscribers, c)
		if err := c.subscribe(f.filter, byte(f.o.QoS)); err != nil {
			return subscribers, nil, err
		}
		f.ledgers = append(f.ledgers, newLedger(len(f.topics), f.count))
	}
	f.latencies = make([][]time.Duration, f.subscribers)
	for i := range f.topics {
		c, err := dialMQTT(f.o.Addr, fmt.Sprintf("load-pub-%d-%d", f.first, i), i)
		if err != nil {
			return subscribers, publishers, err
		}
		publishers = append(publishers, c)
	}
	return subscribers, publishers, nil
}

func (f *flow) result() Result {
	r := Result{}
	whole := f.ledgers[0]
	for i, l := range f.ledgers {
		r.Latencies = append(r.Latencies, f.latencies[i]...)
		switch {
		case i > 0 && f.shared:
			whole.merge(l)
		case !f.shared:
			r.Messages += l.distinct()
			r.Duplicates += l.duplicates
			r.Disorder += l.disorder
		}
	}
	if f.shared {
		r.Messages, r.Duplicates = whole.distinct(), whole.duplicates
	}
	r.Lost = f.expected() - r.Messages
	return r
}

// subscribe acknowledges what arrives, one write a read.
func (f *flow) subscribe(c *mqttConn, index int) {
	l := f.ledgers[index]
	var replies []byte
	batch := int64(0)
	for number := 0; ; {
		kind, data, err := c.read()
		if err != nil {
			return
		}
		switch kind >> 4 {
		case mqttPublish >> 4:
			at := 2 + int(binary.BigEndian.Uint16(data))
			switch kind >> 1 & 3 {
			case 1:
				replies = append(replies, mqttPuback, 2, data[at], data[at+1])
				at += 2
			case 2:
				replies = append(replies, mqttPubrec, 2, data[at], data[at+1])
				at += 2
			}
			stamp := data[at:]
			l.arrived(int(binary.BigEndian.Uint64(stamp))-f.first, int(binary.BigEndian.Uint64(stamp[8:])))
			if number++; f.o.Rate > 0 || number%sampled == 0 {
				f.latencies[index] = append(f.latencies[index], time.Since(started)-time.Duration(binary.BigEndian.Uint64(stamp[16:])))
			}
			batch++
		case mqttPubrel >> 4:
			replies = append(replies, mqttPubcomp, 2, data[0], data[1])
		}
		if c.r.Buffered() < 2 {
			if len(replies) > 0 {
				c.Write(replies)
				replies = replies[:0]
			}
			f.arrived.Add(batch)
			batch = 0
			select {
			case f.wake <- struct{}{}:
			default:
			}
		}
	}
}

// got is how many messages of each publisher have reached all who should get them, on average.
func (f *flow) got() int {
	return int(f.arrived.Load()) / len(f.topics) / f.copies()
}

// publish sends the messages of one publisher: at a rate, or with a window of unconfirmed ones.
func (f *flow) publish(c *mqttConn, index int) {
	s := newStamped(f.topics[index], byte(f.o.QoS), f.first+index, f.o.Size)
	if f.o.Rate > 0 {
		f.pace(c, s, index)
		return
	}
	ahead := aheadMax
	if f.o.QoS == 0 || f.subscribers > len(f.topics) {
		ahead = f.o.Window
	}
	var block []byte
	sent, confirmed := 0, 0
	quiet := time.Now()
	for confirmed < f.count {
		block = block[:0]
		now := time.Since(started)
		limit := min(f.count, f.got()+ahead)
		if f.o.QoS > 0 {
			limit = min(limit, confirmed+f.o.Window)
		}
		for ; sent < limit; sent++ {
			block = s.appendTo(block, sent, now)
		}
		if len(block) > 0 {
			if _, err := c.Write(block); err != nil {
				return
			}
			quiet = time.Now()
		}
		switch {
		case f.o.QoS == 0:
			confirmed = sent
		case confirmed < sent:
			n, err := c.confirmations()
			if err != nil {
				return
			}
			confirmed += n
			continue
		}
		if sent < f.count && sent >= f.got()+ahead {
			select {
			case <-f.wake:
			case <-time.After(time.Millisecond):
			}
			if time.Since(quiet) > silence {
				return
			}
		}
	}
}

// confirmations reads what has come, at least one packet, and answers PUBREC; it returns how many messages are done.
func (c *mqttConn) confirmations() (int, error) {
	n := 0
	var releases []byte
	for first := true; first || c.r.Buffered() >= 4; first = false {
		kind, data, err := c.read()
		if err != nil {
			return n, err
		}
		switch kind {
		case mqttPuback, mqttPubcomp:
			n++
		case mqttPubrec:
			releases = append(releases, mqttPubrel, 2, data[0], data[1])
		}
	}
	if len(releases) > 0 {
		_, err := c.Write(releases)
		return n, err
	}
	return n, nil
}

// pace sends at a fixed rate whatever the server does. What could not leave in time, because the server did not read,
// counts from when it was due; the generator's own slack of a timer does not count. Publishers take turns. The rate is that of
// deliveries where each subscriber gets every message.
func (f *flow) pace(c *mqttConn, s stamped, index int) {
	confirmed := make(chan struct{})
	go func() {
		defer close(confirmed)
		for n := 0; f.o.QoS > 0 && n < f.count; {
			more, err := c.confirmations()
			if err != nil {
				return
			}
			n += more
		}
	}()
	turns := f.o.Conns * len(f.topics)
	gap := time.Second * time.Duration(turns*f.copies()) / time.Duration(f.o.Rate)
	begin := time.Since(started) + gap*time.Duration(f.first+index)/time.Duration(turns)
	var block []byte
	for sent := 0; sent < f.count; {
		now := time.Since(started)
		slept := false
		if due := begin + gap*time.Duration(sent); now < due {
			time.Sleep(due - now)
			now, slept = time.Since(started), true
		}
		block = block[:0]
		for ; sent < f.count && begin+gap*time.Duration(sent) <= now; sent++ {
			at := begin + gap*time.Duration(sent)
			if slept {
				at = now
			}
			block = s.appendTo(block, sent, at)
		}
		if _, err := c.Write(block); err != nil {
			return
		}
	}
	select {
	case <-confirmed:
	case <-time.After(silence):
	}
}

// mqttConnects opens and closes connections, one at a time: CONNECT, CONNACK, DISCONNECT.
func mqttConnects(o *Options, id, count int) Result {
	result := Result{}
	for i := range count {
		began := time.Now()
		c, err := dialMQTT(o.Addr, fmt.Sprintf("load-%d-%d", id, i), id)
		if err != nil {
			result.Errors++
			result.Note = err.Error()
			continue
		}
		result.Latencies = append(result.Latencies, time.Since(began))
		c.Write([]byte{0xE0, 0})
		c.Close()
		result.Messages++
	}
	return result
}

// mqttIdle opens count connections, with a subscription each when o.QoS is 1, says so and holds them until its input ends.
func mqttIdle(o *Options, id, count int) Result {
	result := Result{}
	for i := range count {
		c, err := dialMQTT(o.Addr, fmt.Sprintf("load-%d-%d", id, i), id)
		if err == nil && o.QoS > 0 {
			err = c.subscribe(fmt.Sprintf("%s/%d/%d", o.Topic, id, i), 1)
		}
		if err != nil {
			result.Errors++
			result.Note = err.Error()
			continue
		}
		c.r = nil
		held.Lock()
		held.conns = append(held.conns, c)
		held.Unlock()
		result.Messages++
	}
	return result
}

var held struct {
	sync.Mutex
	conns []*mqttConn
}

// hold waits until nobody wants the idle connections any more.
func hold() {
	bufio.NewReader(os.Stdin).ReadByte()
	for _, c := range held.conns {
		c.Close()
	}
}
