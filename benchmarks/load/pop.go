package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

func popFields(o *Options, limit, waitMs int) []field {
	return []field{
		{"consumerGroup", o.Group}, {"topic", o.Topic}, {"queueId", "-1"}, {"maxMsgNums", strconv.Itoa(limit)},
		{"invisibleTime", "60000"}, {"pollTime", strconv.Itoa(waitMs)}, {"bornTime", strconv.FormatInt(time.Now().UnixMilli(), 10)},
		{"initMode", "0"}, {"expType", "TAG"}, {"exp", "*"}, {"order", "false"},
	}
}

// starts maps "retry queue" to the first offset of its part of the answer.
func starts(info string) map[string]string {
	found := map[string]string{}
	for _, part := range strings.Split(info, ";") {
		if at := strings.LastIndexByte(part, ' '); at > 0 {
			found[part[:at]] = part[at+1:]
		}
	}
	return found
}

// handed knows what members of the group have got: a message that comes again within its invisible time is a duplicate.
type handed struct {
	sync.Mutex
	seen map[string]bool
}

var handedOut = handed{seen: map[string]bool{}}

func (h *handed) again(queue, offset string) bool {
	key := queue + " " + offset
	h.Lock()
	defer h.Unlock()
	if h.seen[key] {
		return true
	}
	h.seen[key] = true
	return false
}

// remotingPop receives by 32 and acknowledges each message by a request of its own, all acknowledgements of an answer in one write.
func remotingPop(o *Options, id, count int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 1<<18)
	scratch := make([]byte, 1<<20)
	result := Result{}
	for empty := 0; result.Messages < count && empty < 3; {
		began := time.Now()
		conn.Write(request(false, 200050, 1, popFields(o, 32, 1000), nil))
		answer, err := readReply(r, scratch, true)
		if err != nil {
			return Result{Messages: result.Messages, Errors: 1, Note: err.Error()}
		}
		if answer.code != 0 {
			empty++
			result.Note = fmt.Sprintf("code %d", answer.code)
			continue
		}
		empty = 0
		first := starts(answer.ext["startOffsetInfo"])
		var acks []byte
		n := 0
		for b := answer.body; len(b) > 0; {
			size := int(binary.BigEndian.Uint32(b))
			queue := strconv.Itoa(int(binary.BigEndian.Uint32(b[12:])))
			offset := strconv.FormatInt(int64(binary.BigEndian.Uint64(b[20:])), 10)
			receipt := strings.Join([]string{
				first["0 "+queue], answer.ext["popTime"], answer.ext["invisibleTime"], answer.ext["reviveQid"], "0", "broker-a", queue, offset,
			}, " ")
			acks = append(acks, request(false, 200051, n, []field{
				{"consumerGroup", o.Group}, {"topic", o.Topic}, {"queueId", queue}, {"offset", offset}, {"extraInfo", receipt},
			}, nil)...)
			if handedOut.again(queue, offset) {
				result.Duplicates++
			}
			b = b[size:]
			n++
		}
		conn.Write(acks)
		for range n {
			done, err := readReply(r, scratch, false)
			if err != nil || done.code != 0 {
				result.Errors++
				result.Note = fmt.Sprintf("ack code %d, %v", done.code, err)
			} else {
				result.Messages++
			}
		}
		result.Latencies = append(result.Latencies, time.Since(began))
	}
	return result
}
