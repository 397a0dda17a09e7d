package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	timerLead  = 4 * time.Second  // from the last timer set to the first one due
	timerGrace = 15 * time.Second // from the last one due to giving up
	queues     = 4
)

// drafted is a send of one message with further properties and system flags; body is taken as it is.
func drafted(o *Options, queue, opaque int, id, more string, flags int, body []byte) []byte {
	fields := sendFields(o.Topic, queue, id)
	for i := range fields {
		switch fields[i].key {
		case "f":
			fields[i].value = strconv.Itoa(flags)
		case "i":
			fields[i].value += "\x02" + more
		}
	}
	return request(o.Binary, 310, opaque, fields, body)
}

// remotingTimerInsert sets timers that are due in an hour: what is counted is the insertion.
func remotingTimerInsert(o *Options, id, count int) Result {
	due := time.Now().Add(time.Hour)
	return setTimers(o, id, count, func(i int) time.Time { return due.Add(time.Duration(i%60_000) * time.Millisecond) })
}

// setTimers sends count timers with `window` in flight.
func setTimers(o *Options, id, count int, due func(i int) time.Time) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 1<<16)
	scratch := make([]byte, 4096)
	payload := body(max(o.Size, 8))
	result := Result{}
	for sent := 0; sent < count; {
		n := min(o.Window, count-sent)
		var block []byte
		for range n {
			at := due(sent).UnixMilli()
			binary.BigEndian.PutUint64(payload, uint64(at))
			unique := fmt.Sprintf("%016X%016X", id+1, sent)
			block = append(block, drafted(o, sent%queues, sent, unique, fmt.Sprintf("TIMER_DELIVER_MS\x01%d\x02", at), 0, payload)...)
			sent++
		}
		began := time.Now()
		conn.Write(block)
		for range n {
			answer, err := readReply(r, scratch, false)
			if err != nil {
				return Result{Messages: result.Messages, Errors: count - result.Messages, Note: err.Error()}
			}
			if answer.code != 0 {
				result.Errors++
				result.Note = fmt.Sprintf("code %d", answer.code)
				continue
			}
			result.Messages++
		}
		result.Latencies = append(result.Latencies, time.Since(began))
	}
	return result
}

// remotingTimer sets count timers, spread over their due times at o.Rate, and long-polls for them. The latencies are how
// late they came; Early counts those that came before their time.
func remotingTimer(o *Options, _, count int) Result {
	spread := time.Duration(count) * time.Second / time.Duration(o.Rate)
	first := time.Now().Add(timerLead + time.Duration(count)*time.Second/10_000)
	last := first.Add(spread)
	readers := make([]Result, queues)
	var reading, writing sync.WaitGroup
	for queue := range queues {
		reading.Add(1)
		go func() {
			defer reading.Done()
			readers[queue] = o.lateness(queue, count/queues, last.Add(timerGrace))
		}()
	}
	time.Sleep(200 * time.Millisecond) // the readers stand at the ends of their queues by then
	total := Result{}
	written := make([]Result, 4)
	for i := range written {
		writing.Add(1)
		go func() {
			defer writing.Done()
			written[i] = setTimers(o, i, count/len(written), func(n int) time.Time {
				return first.Add(spread * time.Duration(n) / time.Duration(count/len(written)))
			})
		}()
	}
	writing.Wait()
	reading.Wait()
	set := 0
	for _, w := range written {
		set += w.Messages
		total.Errors += w.Errors
		total.Note = w.Note
	}
	for _, r := range readers {
		total.add(r)
	}
	total.Lost = set - total.Messages
	return total
}

// lateness reads one queue from its end until count messages have come.
func (o *Options) lateness(queue, count int, until time.Time) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	conn.SetReadDeadline(until)
	r := bufio.NewReaderSize(conn, 1<<18)
	conn.Write(request(o.Binary, 30, 1, []field{{"topic", o.Topic}, {"queueId", strconv.Itoa(queue)}}, nil))
	at, err := readReply(r, nil, true)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	offset, _ := strconv.ParseInt(at.ext["offset"], 10, 64)
	result := Result{}
	scratch := make([]byte, 1<<20)
	for result.Messages < count && time.Now().Before(until) {
		conn.Write(request(o.Binary, 11, 1, pullFields(o, queue, offset, 32, 5000), nil))
		answer, err := readReply(r, scratch, true)
		if err != nil {
			result.Note = err.Error()
			return result
		}
		if next, ok := answer.ext["nextBeginOffset"]; ok {
			offset, _ = strconv.ParseInt(next, 10, 64)
		}
		if answer.code != 0 {
			continue
		}
		now := time.Now()
		for b := answer.body; len(b) > recordBody; b = b[binary.BigEndian.Uint32(b):] {
			due := time.UnixMilli(int64(binary.BigEndian.Uint64(b[recordBody:])))
			if now.Before(due) {
				result.Early++
			}
			result.Latencies = append(result.Latencies, now.Sub(due))
			result.Messages++
		}
	}
	return result
}

// recordBody is where the body of a record with an IPv4 host begins.
const recordBody = 88
