package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// HTTP/2 frame types and flags (RFC 9113, 6), and the settings that the generator heeds.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoaway       = 7
	frameWindowUpdate = 8

	endStream  = 1
	ackFlag    = 1
	endHeaders = 4

	maxStreams    = 3
	initialWindow = 4

	headBytes  = 9
	frameMax   = 16384    // bytes of a frame's payload, unless settings say otherwise
	writeBytes = 64 << 10 // of frames that are written together
)

// patience is the time without a frame of the server after which the calls that are under way are lost.
const patience = 30 * time.Second

// framedCalls makes SendMessage calls of one connection by prepared HTTP/2 frames: a call costs a copy of them with another stream
// id. net/http spends more on a call than the server does, so that on few processors it measures itself.
type framedCalls struct {
	conn    net.Conn
	frames  []byte // HEADERS with fields of the dynamic table, then DATA
	data    int    // where DATA begins
	grow    int64  // bytes of a call that count to the connection's window
	latency []time.Duration

	lock      sync.Mutex
	changed   *sync.Cond
	answered  int
	refused   int
	allowed   int   // streams at once, by the server
	window    int64 // bytes of DATA that the server takes
	note      string
	over      bool
	last      time.Time // of the last answer
	began     [4096]time.Time
	confirmed map[uint32]bool // streams whose answer says OK, until they end
}

func appendFrame(out []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	out = append(out, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

func hpackText(out []byte, text string) []byte {
	return append(append(out, byte(len(text))), text...) // shorter than 127 bytes, no Huffman code
}

// requestFields are the header blocks of the first call of a connection and of the others: HPACK with incremental indexing, as the
// SDKs use it (RFC 7541, 6.2.1), so that later blocks have one byte for each field.
func requestFields(addr, client string) (first, later []byte) {
	first = []byte{0x83, 0x86} // :method POST, :scheme http
	later = []byte{0x83, 0x86}
	fields := []struct {
		index       byte // of the name in the static table; 0: none
		name, value string
	}{
		{4, "", "/apache.rocketmq.v2.MessagingService/SendMessage"}, {1, "", addr}, {31, "", "application/grpc"},
		{0, "te", "trailers"}, {0, "x-mq-client-id", client}, {0, "x-mq-language", "GO"}, {0, "x-mq-client-version", "5.0.0"},
		{0, "x-mq-protocol", "v2"}, {0, "grpc-timeout", "30S"},
	}
	for i, field := range fields {
		first = append(first, 0x40|field.index)
		if field.index == 0 {
			first = hpackText(first, field.name)
		}
		first = hpackText(first, field.value)
		later = append(later, 0x80|byte(62+len(fields)-1-i)) // the newest entry of the dynamic table has index 62
	}
	return first, later
}

// grpcFrames sends with o.Window calls in flight, or at o.Rate: then a call is made when it is due. Beyond the streams that the
// server allows on the connection, calls wait in the client, as they do in every SDK.
func grpcFrames(o *Options, id, count int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	calls := &framedCalls{conn: conn, window: 65535, allowed: 1 << 20, confirmed: map[uint32]bool{}}
	calls.changed = sync.NewCond(&calls.lock)
	payload := grpcFrame(sendRequest(o, id, body(o.Size)))
	calls.grow = int64(len(payload))
	if len(payload) > frameMax {
		return Result{Errors: count, Note: "a message larger than a frame"}
	}
	first, later := requestFields(o.Addr, fmt.Sprintf("load-%d", id))
	opening := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	opening = appendFrame(opening, frameSettings, 0, 0, nil)
	opening = appendFrame(opening, frameWindowUpdate, 0, 0, []byte{0x7f, 0, 0, 0}) // more than the answers of a run
	opening = appendFrame(opening, frameHeaders, endHeaders, 1, first)
	opening = appendFrame(opening, frameData, endStream, 1, payload)
	calls.frames = appendFrame(nil, frameHeaders, endHeaders, 0, later)
	calls.data = len(calls.frames)
	calls.frames = appendFrame(calls.frames, frameData, endStream, 0, payload)
	calls.began[0] = time.Now()
	calls.window -= calls.grow
	if _, err := conn.Write(opening); err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	go calls.read()
	calls.wait(func() bool { return calls.answered > 0 }) // the server's settings come before it
	return calls.run(o, count)
}

// run makes `count` calls more, and waits for their answers. With a rate, a latency begins when its call is due.
func (c *framedCalls) run(o *Options, count int) Result {
	begin := time.Now()
	window, gap := o.Window, time.Duration(0)
	if o.Rate > 0 {
		window, gap = len(c.began), time.Second*time.Duration(o.Conns)/time.Duration(o.Rate)
	}
	out := make([]byte, 0, writeBytes+len(c.frames))
	for sent := 0; sent < count; {
		due := count
		if gap > 0 {
			due = min(count, int(time.Since(begin)/gap)+1)
		}
		if due == sent {
			time.Sleep(time.Until(begin.Add(gap * time.Duration(sent))))
			continue
		}
		if !c.wait(func() bool { return c.room(sent, window) > 0 }) {
			break
		}
		c.lock.Lock()
		n := min(due-sent, c.room(sent, window))
		c.window -= int64(n) * c.grow
		for i := range n {
			at := time.Now()
			if gap > 0 {
				at = begin.Add(gap * time.Duration(sent+i))
			}
			c.began[(sent+1+i)%len(c.began)] = at
		}
		c.lock.Unlock()
		out = out[:0]
		for range n {
			sent++
			at := len(out)
			out = append(out, c.frames...)
			binary.BigEndian.PutUint32(out[at+5:], uint32(2*sent+1))
			binary.BigEndian.PutUint32(out[at+c.data+5:], uint32(2*sent+1))
		}
		if _, err := c.conn.Write(out); err != nil {
			break
		}
	}
	c.wait(func() bool { return c.answered > count })
	c.lock.Lock()
	defer c.lock.Unlock()
	return Result{
		Messages: max(0, c.answered-1-c.refused), Errors: c.refused, Lost: max(0, count+1-c.answered), Note: c.note,
		Latencies: c.latency, Took: c.last.Sub(begin),
	}
}

// room is how many calls may be made and written at once, when `sent` and the first one were made. Under the lock.
func (c *framedCalls) room(sent, window int) int {
	flying := sent + 1 - c.answered
	return max(0, min(min(c.allowed, window)-flying, int(c.window/c.grow), writeBytes/len(c.frames)))
}

// wait until `done`; false when the connection is over.
func (c *framedCalls) wait(done func() bool) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	for !done() && !c.over {
		c.changed.Wait()
	}
	return done()
}

// read counts answers. What the bytes at hand say is counted before the sender is woken. Nothing for `patience` ends it.
func (c *framedCalls) read() {
	r := bufio.NewReaderSize(c.conn, writeBytes)
	payload := make([]byte, 0, writeBytes)
	for {
		if r.Buffered() < headBytes {
			c.changed.Broadcast()
			c.conn.SetReadDeadline(time.Now().Add(patience))
		}
		head, err := r.Peek(headBytes)
		if err == nil {
			size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
			kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
			r.Discard(headBytes)
			payload = append(payload[:0], make([]byte, size)...)
			if _, err = io.ReadFull(r, payload); err == nil {
				c.lock.Lock()
				err = c.frame(kind, flags, stream, payload)
				c.lock.Unlock()
			}
		}
		if err != nil {
			c.lock.Lock()
			c.over = true
			c.lock.Unlock()
			c.changed.Broadcast()
			return
		}
	}
}

// frame handles one frame of the server, under the lock.
func (c *framedCalls) frame(kind, flags byte, stream uint32, payload []byte) error {
	switch kind {
	case frameData:
		if len(payload) > 5 && statusOf(payload[5:]) == 20000 {
			c.confirmed[stream] = true
		}
	case frameReset:
		c.note = fmt.Sprintf("stream reset: %d", binary.BigEndian.Uint32(payload))
		flags = endStream
	case frameSettings:
		if flags&ackFlag != 0 {
			return nil
		}
		for ; len(payload) >= 6; payload = payload[6:] {
			value := binary.BigEndian.Uint32(payload[2:])
			switch binary.BigEndian.Uint16(payload) {
			case maxStreams:
				c.allowed = int(min(value, uint32(len(c.began))))
			case initialWindow:
				if int64(value) < c.grow {
					return fmt.Errorf("the window of a stream is smaller than a message")
				}
			}
		}
		_, err := c.conn.Write(appendFrame(nil, frameSettings, ackFlag, 0, nil))
		return err
	case framePing:
		_, err := c.conn.Write(appendFrame(nil, framePing, ackFlag, 0, payload))
		return err
	case frameGoaway:
		c.note = fmt.Sprintf("GOAWAY %d", binary.BigEndian.Uint32(payload[4:]))
		return io.EOF
	case frameWindowUpdate:
		if stream == 0 {
			c.window += int64(binary.BigEndian.Uint32(payload))
		}
		return nil
	}
	if (kind == frameData || kind == frameHeaders || kind == frameReset) && flags&endStream != 0 {
		c.end(stream)
	}
	return nil
}

// end counts a stream that has ended: one without an answer that says OK was refused.
func (c *framedCalls) end(stream uint32) {
	c.last = time.Now()
	if c.confirmed[stream] {
		delete(c.confirmed, stream)
	} else {
		c.refused++
	}
	if c.answered%16 == 0 {
		c.latency = append(c.latency, c.last.Sub(c.began[int(stream/2)%len(c.began)]))
	}
	c.answered++
}
