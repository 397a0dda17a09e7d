package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A few protobuf fields by hand: field number and wire type, then the value.
func pbBytes(out []byte, number int, value []byte) []byte {
	out = binary.AppendUvarint(out, uint64(number)<<3|2)
	out = binary.AppendUvarint(out, uint64(len(value)))
	return append(out, value...)
}

func pbInt(out []byte, number int, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(out, uint64(number)<<3), value)
}

// pbFields calls f with each length-delimited field, and with each varint field's value.
func pbFields(data []byte, f func(number int, bytes []byte, value uint64)) {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return
		}
		data = data[n:]
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return
		}
		data = data[n:]
		if tag&7 == 2 {
			if uint64(len(data)) < value {
				return
			}
			f(int(tag>>3), data[:value], 0)
			data = data[value:]
		} else {
			f(int(tag>>3), nil, value)
		}
	}
}

func resource(name string) []byte { return pbBytes(nil, 2, []byte(name)) }

type grpcClient struct {
	http   *http.Client
	base   string
	client string
}

func newGRPC(addr, client string) *grpcClient {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols, MaxConnsPerHost: 1, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}
	return &grpcClient{&http.Client{Transport: transport}, "http://" + addr + "/apache.rocketmq.v2.MessagingService/", client}
}

func (c *grpcClient) request(method string, in io.Reader) *http.Request {
	r, _ := http.NewRequest("POST", c.base+method, in)
	r.Header = http.Header{
		"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "X-Mq-Client-Id": {c.client},
		"X-Mq-Language": {"GO"}, "X-Mq-Client-Version": {"5.0.0"}, "X-Mq-Protocol": {"v2"},
	}
	if method != "Telemetry" {
		r.Header["Grpc-Timeout"] = []string{"30S"}
	}
	return r
}

func grpcFrame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// call returns the messages of the answer; the gRPC status must be 0.
func (c *grpcClient) call(method string, message []byte) ([][]byte, error) {
	answer, err := c.http.Do(c.request(method, bytes.NewReader(grpcFrame(message))))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	status := answer.Trailer.Get("Grpc-Status") + answer.Header.Get("Grpc-Status")
	if status != "0" {
		return nil, fmt.Errorf("grpc-status %s: %s", status, answer.Trailer.Get("Grpc-Message"))
	}
	var out [][]byte
	for len(data) >= 5 {
		n := int(binary.BigEndian.Uint32(data[1:]))
		out = append(out, data[5:5+n])
		data = data[5+n:]
	}
	return out, nil
}

func statusOf(message []byte) (code uint64) {
	pbFields(message, func(number int, b []byte, _ uint64) {
		if number == 1 {
			pbFields(b, func(n int, _ []byte, v uint64) {
				if n == 1 {
					code = v
				}
			})
		}
	})
	return code
}

// workers runs `window` loops over one client; each has its share of count.
func workers(window, count int, one func() (int, error)) Result {
	results := make([]Result, window)
	var group sync.WaitGroup
	for w := range window {
		group.Add(1)
		go func() {
			defer group.Done()
			r := &results[w]
			for i := 0; r.Messages < count/window && r.Errors < 100; i++ {
				began := time.Now()
				n, err := one()
				if err != nil {
					r.Errors++
					r.Note = err.Error()
					continue
				}
				r.Messages += n
				if i%16 == 0 {
					r.Latencies = append(r.Latencies, time.Since(began))
				}
			}
		}()
	}
	group.Wait()
	total := Result{}
	for _, r := range results {
		total.add(r)
	}
	return total
}

// sendRequest is a SendMessageRequest with one NORMAL message.
func sendRequest(o *Options, id int, payload []byte) []byte {
	system := pbBytes(nil, 3, []byte(fmt.Sprintf("01%032X", id+1)))
	system = pbInt(system, 5, 1)
	system = pbInt(system, 6, 1)
	now := time.Now()
	system = pbBytes(system, 7, pbInt(nil, 1, uint64(now.Unix())))
	system = pbBytes(system, 8, []byte("load"))
	message := pbBytes(nil, 1, resource(o.Topic))
	message = pbBytes(message, 3, system)
	message = pbBytes(message, 4, payload)
	return pbBytes(nil, 1, message)
}

func grpcSend(o *Options, id, count int) Result {
	client := newGRPC(o.Addr, fmt.Sprintf("load-%d", id))
	request := sendRequest(o, id, body(o.Size))
	return workers(o.Window, count, func() (int, error) {
		answer, err := client.call("SendMessage", request)
		if err != nil {
			return 0, err
		}
		if code := statusOf(answer[0]); code != 20000 {
			return 0, fmt.Errorf("status %d", code)
		}
		return 1, nil
	})
}

// settings opens the telemetry stream of a simple consumer and waits for the server's word.
func (c *grpcClient) settings(o *Options) (io.Closer, error) {
	entry := pbBytes(nil, 1, resource(o.Topic))
	entry = pbBytes(entry, 2, pbBytes(pbInt(nil, 1, 1), 2, []byte("*")))
	subscription := pbBytes(nil, 1, resource(o.Group))
	subscription = pbBytes(subscription, 2, entry)
	endpoints := pbBytes(pbInt(nil, 1, 1), 2, pbInt(pbBytes(nil, 1, []byte("127.0.0.1")), 2, 8081))
	settings := pbInt(nil, 1, 3)
	settings = pbBytes(settings, 2, endpoints)
	settings = pbBytes(settings, 4, pbInt(nil, 1, 3))
	settings = pbBytes(settings, 6, subscription)
	reader, writer := io.Pipe()
	go writer.Write(grpcFrame(pbBytes(nil, 2, settings)))
	answer, err := c.http.Do(c.request("Telemetry", reader))
	if err != nil {
		return nil, err
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(answer.Body, head); err != nil {
		return nil, fmt.Errorf("telemetry ended: %w, %v %v", err, answer.Header, answer.Trailer)
	}
	if _, err := io.ReadFull(answer.Body, make([]byte, binary.BigEndian.Uint32(head[1:]))); err != nil {
		return nil, err
	}
	return writer, nil
}

// grpcPrime receives once, so that the group has a position in every queue before the topic is filled.
func grpcPrime(o *Options, id, _ int) Result {
	client := newGRPC(o.Addr, fmt.Sprintf("prime-%d", id))
	stream, err := client.settings(o)
	if err != nil {
		return Result{Errors: 1, Note: err.Error()}
	}
	defer stream.Close()
	if _, err := client.call("ReceiveMessage", receiveRequest(o, primeWait)); err != nil {
		return Result{Errors: 1, Note: err.Error()}
	}
	return Result{Messages: 1}
}

const (
	receiveWait = 5 * time.Second
	primeWait   = 50 * time.Millisecond // nothing will come, and a server whose instructions are counted has a slow clock
)

func receiveRequest(o *Options, wait time.Duration) []byte {
	queue := pbBytes(nil, 1, resource(o.Topic))
	queue = pbInt(queue, 2, 1<<64-1)
	queue = pbBytes(queue, 4, pbBytes(nil, 1, []byte("broker-a")))
	receive := pbBytes(nil, 1, resource(o.Group))
	receive = pbBytes(receive, 2, queue)
	receive = pbBytes(receive, 3, pbBytes(pbInt(nil, 1, 1), 2, []byte("*")))
	receive = pbInt(receive, 4, 32)
	receive = pbBytes(receive, 5, pbInt(nil, 1, 60))
	return pbBytes(receive, 7, pbInt(pbInt(nil, 1, uint64(wait/time.Second)), 2, uint64(wait%time.Second)))
}

// delivered calls f with the message id, the receipt handle and the body of each message in a ReceiveMessage answer.
func delivered(answer [][]byte, f func(messageID, handle, payload []byte)) {
	for _, part := range answer {
		pbFields(part, func(number int, message []byte, _ uint64) {
			if number != 2 {
				return
			}
			var handle, messageID, payload []byte
			pbFields(message, func(number int, b []byte, _ uint64) {
				switch number {
				case 3:
					pbFields(b, func(number int, b []byte, _ uint64) {
						switch number {
						case 3:
							messageID = b
						case 12:
							handle = b
						}
					})
				case 4:
					payload = b
				}
			})
			f(messageID, handle, payload)
		})
	}
}

// grpcLatency sends at a fixed rate and receives by long polling: time from the call of the sender to the receiver's hands.
func grpcLatency(o *Options, id, count int) Result {
	sender := newGRPC(o.Addr, fmt.Sprintf("load-s%d", id))
	client := newGRPC(o.Addr, fmt.Sprintf("load-%d", id))
	stream, err := client.settings(o)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer stream.Close()
	go func() {
		payload := body(o.Size)
		tick := time.NewTicker(time.Second * time.Duration(o.Conns) / time.Duration(o.Rate))
		defer tick.Stop()
		for range count {
			<-tick.C
			binary.BigEndian.PutUint64(payload, uint64(time.Now().UnixNano()))
			request := sendRequest(o, id, payload)
			go sender.call("SendMessage", request)
		}
	}()
	ack := pbBytes(pbBytes(nil, 1, resource(o.Group)), 2, resource(o.Topic))
	result := Result{}
	for empty := 0; result.Messages < count && empty < 2; empty++ {
		answer, err := client.call("ReceiveMessage", receiveRequest(o, receiveWait))
		if err != nil {
			result.Note = err.Error()
			break
		}
		now := time.Now().UnixNano()
		delivered(answer, func(messageID, handle, payload []byte) {
			empty = -1
			if len(payload) == o.Size {
				result.Latencies = append(result.Latencies, time.Duration(now-int64(binary.BigEndian.Uint64(payload))))
				result.Messages++
			}
			go client.call("AckMessage", pbBytes(ack, 3, pbBytes(pbBytes(nil, 1, messageID), 2, handle)))
		})
	}
	return result
}

// grpcReceive receives up to 32 and acknowledges each message by a call of its own, as the SDKs do.
func grpcReceive(o *Options, id, count int) Result {
	client := newGRPC(o.Addr, fmt.Sprintf("load-%d", id))
	stream, err := client.settings(o)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer stream.Close()
	receive := receiveRequest(o, receiveWait)
	ack := pbBytes(pbBytes(nil, 1, resource(o.Group)), 2, resource(o.Topic))
	var again atomic.Int64
	result := workers(o.Window, count, func() (int, error) {
		answer, err := client.call("ReceiveMessage", receive)
		if err != nil {
			return 0, err
		}
		n := 0
		var failed error
		delivered(answer, func(messageID, handle, _ []byte) {
			if part := strings.Fields(string(handle)); len(part) >= 8 && handedOut.again(part[6], part[7]) {
				again.Add(1)
			}
			done, err := client.call("AckMessage", pbBytes(ack, 3, pbBytes(pbBytes(nil, 1, messageID), 2, handle)))
			if err != nil {
				failed = err
			} else if code := statusOf(done[0]); code != 20000 {
				failed = fmt.Errorf("ack status %d", code)
			} else {
				n++
			}
		})
		if failed != nil {
			return n, failed
		}
		if n == 0 {
			return 0, fmt.Errorf("received nothing: status %d, %.200q", statusOf(answer[0]), answer[0])
		}
		return n, nil
	})
	result.Duplicates = int(again.Load())
	return result
}
