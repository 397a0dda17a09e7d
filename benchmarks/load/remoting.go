package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

type field struct{ key, value string }

// request encodes one remoting frame; the opaque stands at a fixed place in the binary form.
func request(binaryHeader bool, code, opaque int, fields []field, payload []byte) []byte {
	var header []byte
	kind := byte(0)
	if binaryHeader {
		kind = 1
		var ext bytes.Buffer
		for _, f := range fields {
			binary.Write(&ext, binary.BigEndian, uint16(len(f.key)))
			ext.WriteString(f.key)
			binary.Write(&ext, binary.BigEndian, uint32(len(f.value)))
			ext.WriteString(f.value)
		}
		var h bytes.Buffer
		binary.Write(&h, binary.BigEndian, uint16(code))
		h.WriteByte(0)
		binary.Write(&h, binary.BigEndian, uint16(479))
		binary.Write(&h, binary.BigEndian, uint32(opaque))
		binary.Write(&h, binary.BigEndian, uint32(0))
		binary.Write(&h, binary.BigEndian, uint32(0))
		binary.Write(&h, binary.BigEndian, uint32(ext.Len()))
		h.Write(ext.Bytes())
		header = h.Bytes()
	} else {
		m := map[string]string{}
		for _, f := range fields {
			m[f.key] = f.value
		}
		header, _ = json.Marshal(map[string]any{
			"code": code, "extFields": m, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 479,
		})
	}
	frame := make([]byte, 0, 8+len(header)+len(payload))
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(header)+len(payload)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(kind)<<24|uint32(len(header)))
	frame = append(frame, header...)
	return append(frame, payload...)
}

type reply struct {
	code   int
	opaque int
	ext    map[string]string
	body   []byte
}

// readReply reads one frame; the extension fields are decoded only when asked for.
func readReply(r *bufio.Reader, scratch []byte, want bool) (reply, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return reply{}, err
	}
	size := int(binary.BigEndian.Uint32(head[:4])) - 4
	kind := head[4]
	headerLen := int(binary.BigEndian.Uint32(head[4:]) & 0xFFFFFF)
	data := scratch
	if cap(data) < size {
		data = make([]byte, size)
	}
	data = data[:size]
	if _, err := io.ReadFull(r, data); err != nil {
		return reply{}, err
	}
	out := reply{body: data[headerLen:]}
	h := data[:headerLen]
	if kind == 1 {
		out.code = int(int16(binary.BigEndian.Uint16(h)))
		out.opaque = int(binary.BigEndian.Uint32(h[5:]))
		if want {
			out.ext = map[string]string{}
			at := 13
			at += 4 + int(binary.BigEndian.Uint32(h[at:]))
			end := at + 4 + int(binary.BigEndian.Uint32(h[at:]))
			at += 4
			for at < end {
				n := int(binary.BigEndian.Uint16(h[at:]))
				key := string(h[at+2 : at+2+n])
				at += 2 + n
				n = int(binary.BigEndian.Uint32(h[at:]))
				out.ext[key] = string(h[at+4 : at+4+n])
				at += 4 + n
			}
		}
		return out, nil
	}
	var j struct {
		Code      int
		Opaque    int
		ExtFields map[string]string
	}
	if err := json.Unmarshal(h, &j); err != nil {
		return reply{}, err
	}
	out.code, out.opaque, out.ext = j.Code, j.Opaque, j.ExtFields
	return out, nil
}

func sendFields(topic string, queue int, id string) []field {
	return []field{
		{"a", "bench"}, {"b", topic}, {"c", "TBW102"}, {"d", "4"}, {"e", strconv.Itoa(queue)}, {"f", "0"},
		{"g", strconv.FormatInt(time.Now().UnixMilli(), 10)}, {"h", "0"},
		{"i", "UNIQ_KEY\x01" + id + "\x02WAIT\x01true\x02"}, {"j", "0"}, {"k", "false"}, {"m", "false"}, {"n", "broker-a"},
	}
}

// remotingSend keeps `window` sends in flight on one connection: what was answered in one read is asked again in one write.
func remotingSend(o *Options, id, count int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	unique := fmt.Sprintf("%032X", id+1)
	frame := request(o.Binary, 310, 7, sendFields(o.Topic, id%4, unique), body(o.Size))
	if o.Rate > 0 {
		return openRemoting(o, conn, count, frame)
	}
	r := bufio.NewReaderSize(conn, 1<<16)
	scratch := make([]byte, 4096)
	result := Result{}
	sent, flying := 0, 0
	var block []byte
	began := make([]time.Time, 0, o.Window)
	for result.Messages+result.Errors < count {
		if o.over() {
			count = sent
		}
		want := min(o.Window-flying, count-sent)
		if want > 0 {
			block = block[:0]
			now := time.Now()
			for range want {
				block = append(block, frame...)
				began = append(began, now)
			}
			if _, err := conn.Write(block); err != nil {
				return Result{Messages: result.Messages, Errors: count - result.Messages, Note: err.Error()}
			}
			sent += want
			flying += want
		}
		for first := true; flying > 0 && (first || r.Buffered() >= 8); first = false {
			answer, err := readReply(r, scratch, false)
			if err != nil {
				return Result{Messages: result.Messages, Errors: count - result.Messages, Note: err.Error()}
			}
			flying--
			if answer.code == 0 {
				result.Messages++
			} else {
				result.Errors++
				result.Note = fmt.Sprintf("code %d", answer.code)
			}
			if o.ended != nil {
				result.note(o, began[0])
			} else if result.Messages%16 == 0 {
				result.Latencies = append(result.Latencies, time.Since(began[0]))
			}
			began = began[1:]
		}
	}
	return result
}

func pullFields(o *Options, queue int, offset int64, limit int, waitMs int) []field {
	flag := 0
	if waitMs > 0 {
		flag = 2
	}
	return []field{
		{"consumerGroup", o.Group}, {"topic", o.Topic}, {"queueId", strconv.Itoa(queue)},
		{"queueOffset", strconv.FormatInt(offset, 10)}, {"maxMsgNums", "32"}, {"sysFlag", strconv.Itoa(flag | 4)},
		{"commitOffset", "0"}, {"suspendTimeoutMillis", strconv.Itoa(waitMs)}, {"subscription", "*"},
		{"subVersion", "0"}, {"expressionType", "TAG"},
	}
}

func records(b []byte) int {
	n := 0
	for len(b) >= 4 {
		size := int(binary.BigEndian.Uint32(b))
		if size < 4 || size > len(b) {
			return -1
		}
		b = b[size:]
		n++
	}
	return n
}

// remotingPull reads queue id%4 from its beginning, by 32, round and round.
func remotingPull(o *Options, id, count int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 1<<18)
	scratch := make([]byte, 1<<20)
	result := Result{}
	offset := int64(0)
	for result.Messages < count {
		conn.Write(request(o.Binary, 11, 1, pullFields(o, id%4, offset, 32, 0), nil))
		answer, err := readReply(r, scratch, true)
		if err != nil {
			result.Errors++
			result.Note = err.Error()
			return result
		}
		if answer.code != 0 {
			if offset == 0 {
				result.Errors++
				result.Note = fmt.Sprintf("code %d", answer.code)
				return result
			}
			offset = 0
			continue
		}
		n := records(answer.body)
		if n <= 0 {
			result.Errors++
			result.Note = "a body that is not records"
			return result
		}
		result.Messages += n
		offset, _ = strconv.ParseInt(answer.ext["nextBeginOffset"], 10, 64)
	}
	return result
}

// remotingLatency sends at a fixed rate to queue `id` and long-polls it: end-to-end time, in the same process.
func remotingLatency(o *Options, id, count int) Result {
	producer, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	consumer, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer producer.Close()
	defer consumer.Close()
	pr := bufio.NewReaderSize(producer, 1<<16)
	cr := bufio.NewReaderSize(consumer, 1<<18)
	producer.Write(request(o.Binary, 310, 1, sendFields(o.Topic, id, fmt.Sprintf("%032X", 99)), body(o.Size)))
	readReply(pr, nil, false)
	consumer.Write(request(o.Binary, 30, 1, []field{{"topic", o.Topic}, {"queueId", strconv.Itoa(id)}}, nil))
	at, err := readReply(cr, nil, true)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	offset, _ := strconv.ParseInt(at.ext["offset"], 10, 64)
	began := make(chan time.Time, count+1)
	go func() {
		frame := request(o.Binary, 310, 1, sendFields(o.Topic, id, fmt.Sprintf("%032X", 98)), body(o.Size))
		tick := time.NewTicker(time.Second * time.Duration(o.Conns) / time.Duration(o.Rate))
		defer tick.Stop()
		for range count {
			<-tick.C
			began <- time.Now()
			producer.Write(frame)
			readReply(pr, nil, false)
		}
	}()
	result := Result{}
	scratch := make([]byte, 1<<20)
	for result.Messages < count {
		consumer.Write(request(o.Binary, 11, 1, pullFields(o, id, offset, 32, 5000), nil))
		answer, err := readReply(cr, scratch, true)
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
		for range records(answer.body) {
			result.Latencies = append(result.Latencies, now.Sub(<-began))
			result.Messages++
		}
	}
	return result
}

// createTopic makes a NORMAL topic with four queues, so that both sides have the same, and the consumer group.
func createTopic(o *Options, _, _ int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: 1, Note: err.Error()}
	}
	defer conn.Close()
	conn.Write(request(false, 17, 1, []field{
		{"topic", o.Topic}, {"defaultTopic", "TBW102"}, {"readQueueNums", "4"}, {"writeQueueNums", "4"}, {"perm", "6"},
		{"topicFilterType", "SINGLE_TAG"}, {"topicSysFlag", "0"}, {"order", "false"}, {"attributes", "+message.type=NORMAL"},
	}, nil))
	group, _ := json.Marshal(map[string]any{"groupName": o.Group, "consumeEnable": true, "retryMaxTimes": 16, "retryQueueNums": 1})
	conn.Write(request(false, 200, 2, []field{{"bname", "broker-a"}}, group))
	r := bufio.NewReader(conn)
	for range 2 {
		answer, err := readReply(r, nil, false)
		if err != nil || answer.code != 0 {
			return Result{Errors: 1, Note: fmt.Sprintf("code %d, %v", answer.code, err)}
		}
	}
	return Result{Messages: 2}
}
