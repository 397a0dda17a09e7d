package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

func mqttPacket(kind byte, payload ...[]byte) []byte {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	out := []byte{kind}
	for v := n; ; {
		b := byte(v % 128)
		if v /= 128; v > 0 {
			out = append(out, b|128)
		} else {
			out = append(out, b)
			break
		}
	}
	for _, p := range payload {
		out = append(out, p...)
	}
	return out
}

func mqttString(s string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}

func mqttRead(r *bufio.Reader) (byte, []byte, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	n, shift := 0, 0
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		n |= int(b&127) << shift
		shift += 7
		if b < 128 {
			break
		}
	}
	data := make([]byte, n)
	_, err = io.ReadFull(r, data)
	return kind, data, err
}

func mqttConnect(addr, client string) (net.Conn, *bufio.Reader, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReaderSize(conn, 1<<17)
	conn.Write(mqttPacket(0x10, mqttString("MQTT"), []byte{4, 2, 0, 60}, mqttString(client)))
	kind, data, err := mqttRead(r)
	if err == nil && (kind != 0x20 || data[1] != 0) {
		err = fmt.Errorf("CONNACK %x %x", kind, data)
	}
	return conn, r, err
}

// mqttSubscriber acknowledges what arrives, one write a read; it reports each arrival.
func mqttSubscriber(conn net.Conn, r *bufio.Reader, count int, arrived func(), done chan<- error) {
	var acks []byte
	for got := 0; got < count; {
		kind, data, err := mqttRead(r)
		if err != nil {
			done <- err
			return
		}
		if kind>>4 != 3 {
			continue
		}
		arrived()
		got++
		n := int(binary.BigEndian.Uint16(data))
		acks = append(acks, 0x40, 2, data[2+n], data[3+n])
		if r.Buffered() < 2 {
			conn.Write(acks)
			acks = acks[:0]
		}
	}
	conn.Write(acks)
	done <- nil
}

func mqttPairOf(o *Options, id int) (net.Conn, *bufio.Reader, net.Conn, *bufio.Reader, string, error) {
	topic := fmt.Sprintf("%s/%d", o.Topic, id)
	sub, sr, err := mqttConnect(o.Addr, fmt.Sprintf("load-sub-%d", id))
	if err != nil {
		return nil, nil, nil, nil, "", err
	}
	sub.Write(mqttPacket(0x82, []byte{0, 1}, mqttString(topic), []byte{1}))
	if _, _, err = mqttRead(sr); err != nil {
		return nil, nil, nil, nil, "", err
	}
	pub, pr, err := mqttConnect(o.Addr, fmt.Sprintf("load-pub-%d", id))
	return sub, sr, pub, pr, topic, err
}

// mqttPair publishes at QoS 1 with `window` un-acknowledged to one subscriber; a message counts when it was acknowledged
// to the publisher and has reached the subscriber.
func mqttPair(o *Options, id, count int) Result {
	sub, sr, pub, pr, topic, err := mqttPairOf(o, id)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer sub.Close()
	defer pub.Close()
	done := make(chan error, 1)
	go mqttSubscriber(sub, sr, count, func() {}, done)
	payload := body(o.Size)
	sent, flying, acked := 0, 0, 0
	var block []byte
	for acked < count {
		block = block[:0]
		for flying < o.Window && sent < count {
			id := binary.BigEndian.AppendUint16(nil, uint16(sent%65535+1))
			block = append(block, mqttPacket(0x32, mqttString(topic), id, payload)...)
			sent++
			flying++
		}
		if len(block) > 0 {
			if _, err := pub.Write(block); err != nil {
				return Result{Messages: acked, Errors: count - acked, Note: err.Error()}
			}
		}
		for first := true; flying > 0 && (first || pr.Buffered() >= 4); first = false {
			kind, _, err := mqttRead(pr)
			if err != nil {
				return Result{Messages: acked, Errors: count - acked, Note: err.Error()}
			}
			if kind == 0x40 {
				flying--
				acked++
			}
		}
	}
	if err := <-done; err != nil {
		return Result{Messages: acked, Errors: 1, Note: err.Error()}
	}
	return Result{Messages: acked}
}

// mqttLatency publishes at a fixed rate at QoS 1: time from PUBLISH to its arrival at the subscriber.
func mqttLatency(o *Options, id, count int) Result {
	sub, sr, pub, pr, topic, err := mqttPairOf(o, id)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer sub.Close()
	defer pub.Close()
	began := make(chan time.Time, count)
	result := Result{}
	done := make(chan error, 1)
	go mqttSubscriber(sub, sr, count, func() {
		result.Latencies = append(result.Latencies, time.Since(<-began))
		result.Messages++
	}, done)
	go func() {
		for {
			if _, _, err := mqttRead(pr); err != nil {
				return
			}
		}
	}()
	payload := body(o.Size)
	tick := time.NewTicker(time.Second * time.Duration(o.Conns) / time.Duration(o.Rate))
	defer tick.Stop()
	for i := range count {
		<-tick.C
		began <- time.Now()
		pub.Write(mqttPacket(0x32, mqttString(topic), binary.BigEndian.AppendUint16(nil, uint16(i%65535+1)), payload))
	}
	if err := <-done; err != nil {
		result.Note = err.Error()
	}
	return result
}
