package main

import (
	"bufio"
	"fmt"
	"net"
	"time"
)

const (
	slice   = 100 * time.Millisecond
	settled = 20 // acknowledgements that say that somebody leads
	retry   = 5 * time.Millisecond
	patient = time.Second
)

// Slice is a tenth of a second of a run: answered sends, and a sample of their latencies in microseconds.
type Slice struct {
	Count int     `json:"count"`
	Late  []int64 `json:"late"`
}

func (s *Slice) add(other Slice) {
	s.Count += other.Count
	s.Late = append(s.Late, other.Late...)
}

func (r *Result) slice(at int) *Slice {
	for len(r.Slices) <= at {
		r.Slices = append(r.Slices, Slice{Late: []int64{}})
	}
	return &r.Slices[at]
}

// note puts an answered send into the slice of its answer.
func (r *Result) note(o *Options, began time.Time) {
	now := time.Now()
	found := r.slice(int(now.Sub(o.begun) / slice))
	found.Count++
	if found.Count%8 == 1 {
		found.Late = append(found.Late, now.Sub(began).Microseconds())
	}
}

// remotingTimeline is remotingSend until standard input ends; the result has what was answered in each tenth of a second.
func remotingTimeline(o *Options, id, _ int) Result {
	return remotingSend(o, id, 1<<60)
}

// remotingFailover sends one message after the other to whoever takes it: after a lost connection, a refusal or a second without
// an answer it goes to the next address, and the message is sent again. It ends when that has happened and somebody takes messages
// again. The latency is the time between the last acknowledgement before and the first one after.
func remotingFailover(o *Options, id, _ int) Result {
	frame := request(o.Binary, 310, 7, sendFields(o.Topic, id%4, fmt.Sprintf("%032X", id+1)), body(o.Size))
	scratch := make([]byte, 4096)
	result := Result{}
	at, row, failed := 0, 0, false
	last := time.Now()
	for row < settled || !failed {
		conn, err := net.DialTimeout("tcp", o.all[at%len(o.all)], patient)
		if err == nil {
			r := bufio.NewReaderSize(conn, 1<<16)
			for row < settled || !failed {
				conn.SetDeadline(time.Now().Add(patient))
				if _, err = conn.Write(frame); err != nil {
					break
				}
				answer, err := readReply(r, scratch, false)
				if err != nil || answer.code != 0 {
					result.Note = fmt.Sprintf("code %d, %v", answer.code, err)
					break
				}
				if failed && len(result.Latencies) == 0 {
					result.Latencies = append(result.Latencies, time.Since(last))
				}
				last = time.Now()
				row++
				result.Messages++
			}
			conn.Close()
		}
		if row >= settled && !failed {
			failed, row = true, 0
		} else if row < settled && row > 0 {
			row = 0
		}
		at++
		time.Sleep(retry)
	}
	return result
}
