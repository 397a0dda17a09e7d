package main

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	prepared = 4 // MessageSysFlag's transaction bits
	commit   = 8
)

// remotingTransactions does `window` transactions at a time: all their half messages in one write, then all their commits.
// A commit is asked for an answer, so that a transaction counts when its message is there to be read.
func remotingTransactions(o *Options, id, count int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 1<<16)
	scratch := make([]byte, 4096)
	payload := body(o.Size)
	result := Result{}
	for sent := 0; sent < count; {
		n := min(o.Window, count-sent)
		first := sent
		var block []byte
		for ; sent < first+n; sent++ {
			block = append(block, drafted(o, sent%queues, sent, transaction(id, sent), "TRAN_MSG\x01true\x02PGROUP\x01"+o.Group+"\x02", prepared, payload)...)
		}
		began := time.Now()
		conn.Write(block)
		block = block[:0]
		for range n {
			half, err := readReply(r, scratch, true)
			if err != nil || half.code != 0 {
				return Result{Messages: result.Messages, Errors: count - result.Messages, Note: fmt.Sprintf("half: code %d, %v", half.code, err)}
			}
			block = append(block, end(o, id, half)...)
		}
		conn.Write(block)
		for range n {
			done, err := readReply(r, scratch, false)
			if err != nil {
				return Result{Messages: result.Messages, Errors: count - result.Messages, Note: err.Error()}
			}
			if done.code != 0 {
				result.Errors++
				result.Note = fmt.Sprintf("commit: code %d", done.code)
				continue
			}
			result.Messages++
		}
		result.Latencies = append(result.Latencies, time.Since(began))
	}
	return result
}

func transaction(id, number int) string { return fmt.Sprintf("%016X%016X", id+1, number) }

// end is the commit of the transaction whose half message was answered so.
func end(o *Options, id int, half reply) []byte {
	physical, _ := strconv.ParseInt(half.ext["msgId"][16:], 16, 64)
	unique := transaction(id, half.opaque)
	return request(o.Binary, 37, half.opaque, []field{
		{"producerGroup", o.Group}, {"tranStateTableOffset", half.ext["queueOffset"]},
		{"commitLogOffset", strconv.FormatInt(physical, 10)}, {"commitOrRollback", strconv.Itoa(commit)},
		{"fromTransactionCheck", "false"}, {"msgId", unique}, {"transactionId", unique}, {"topic", o.Topic}, {"bname", "broker-a"},
	}, nil)
}

// stored is the number of messages in the topic's queues.
func stored(o *Options, r *bufio.Reader, conn net.Conn) (int, error) {
	total := 0
	for queue := range queues {
		conn.Write(request(o.Binary, 30, queue, []field{{"topic", o.Topic}, {"queueId", strconv.Itoa(queue)}}, nil))
		answer, err := readReply(r, nil, true)
		if err != nil || answer.code != 0 {
			return 0, fmt.Errorf("queue %d: code %d, %v", queue, answer.code, err)
		}
		offset, _ := strconv.Atoi(answer.ext["offset"])
		total += offset
	}
	return total, nil
}

// remotingStored answers with the number of messages in the topic.
func remotingStored(o *Options, _, _ int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: 1, Note: err.Error()}
	}
	defer conn.Close()
	n, err := stored(o, bufio.NewReader(conn), conn)
	if err != nil {
		return Result{Errors: 1, Note: err.Error()}
	}
	return Result{Messages: n}
}
