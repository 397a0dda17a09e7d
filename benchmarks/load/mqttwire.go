package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// Fixed headers of MQTT 3.1.1 control packets.
const (
	mqttPublish  = 0x30
	mqttPuback   = 0x40
	mqttPubrec   = 0x50
	mqttPubrel   = 0x62
	mqttPubcomp  = 0x70
	mqttSuback   = 0x90
	stampedBytes = 24
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

// mqttConn is one connected client; what read returns is valid until the next read.
type mqttConn struct {
	net.Conn
	r       *bufio.Reader
	scratch []byte
}

// dialMQTT connects a clean session. Clients leave from one of 200 loopback addresses, for one has too few ports.
func dialMQTT(addr, client string, from int) (*mqttConn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+from%200))}}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &mqttConn{conn, bufio.NewReaderSize(conn, 4096), nil}
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	conn.Write(mqttPacket(0x10, mqttString("MQTT"), []byte{4, 2, 0x0E, 0x10}, mqttString(client)))
	kind, data, err := c.read()
	if err == nil && (kind != 0x20 || len(data) < 2 || data[1] != 0) {
		err = fmt.Errorf("CONNACK %x %x", kind, data)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetReadDeadline(time.Time{})
	return c, nil
}

func (c *mqttConn) subscribe(filter string, qos byte) error {
	c.r = bufio.NewReaderSize(c.Conn, 1<<16)
	c.Write(mqttPacket(0x82, []byte{0, 1}, mqttString(filter), []byte{qos}))
	kind, data, err := c.read()
	if err == nil && (kind != mqttSuback || data[len(data)-1] != qos) {
		err = fmt.Errorf("SUBACK %x %x", kind, data)
	}
	return err
}

func (c *mqttConn) read() (byte, []byte, error) {
	kind, err := c.r.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	n, shift := 0, 0
	for {
		b, err := c.r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		n |= int(b&127) << shift
		shift += 7
		if b < 128 {
			break
		}
	}
	if cap(c.scratch) < n {
		c.scratch = make([]byte, n)
	}
	data := c.scratch[:n]
	_, err = io.ReadFull(c.r, data)
	return kind, data, err
}

// stamped is a PUBLISH that is encoded once; each message gets its packet id, publisher, number and time in place.
type stamped struct {
	frame     []byte
	id, stamp int
}

func newStamped(topic string, qos byte, publisher, size int) stamped {
	name := mqttString(topic)
	payload := body(max(size, stampedBytes))
	binary.BigEndian.PutUint64(payload, uint64(publisher))
	var identifier []byte
	if qos > 0 {
		identifier = make([]byte, 2)
	}
	frame := mqttPacket(mqttPublish|qos<<1, name, identifier, payload)
	return stamped{frame, len(frame) - len(payload) - len(identifier), len(frame) - len(payload)}
}

func (s stamped) appendTo(block []byte, number int, at time.Duration) []byte {
	if s.id != s.stamp {
		binary.BigEndian.PutUint16(s.frame[s.id:], uint16(number%65535+1))
	}
	binary.BigEndian.PutUint64(s.frame[s.stamp+8:], uint64(number))
	binary.BigEndian.PutUint64(s.frame[s.stamp+16:], uint64(at))
	return append(block, s.frame...)
}

// ledger checks what one subscriber gets: each publisher's numbers, seen once, in order.
type ledger struct {
	seen                 [][]uint64
	last                 []int
	duplicates, disorder int
}

func newLedger(publishers, count int) *ledger {
	l := &ledger{make([][]uint64, publishers), make([]int, publishers), 0, 0}
	for i := range l.seen {
		l.seen[i] = make([]uint64, count/64+1)
		l.last[i] = -1
	}
	return l
}

func (l *ledger) arrived(publisher, number int) {
	if publisher >= len(l.seen) || number>>6 >= len(l.seen[publisher]) {
		l.disorder++
		return
	}
	bit := uint64(1) << (number & 63)
	switch {
	case l.seen[publisher][number>>6]&bit != 0:
		l.duplicates++
	case number < l.last[publisher]:
		l.disorder++
	default:
		l.last[publisher] = number
	}
	l.seen[publisher][number>>6] |= bit
}

// merge adds another member's ledger: what both have seen is a duplicate.
func (l *ledger) merge(other *ledger) {
	l.duplicates += other.duplicates
	l.disorder += other.disorder
	for p, words := range other.seen {
		for i, word := range words {
			l.duplicates += ones(l.seen[p][i] & word)
			l.seen[p][i] |= word
		}
	}
}

func (l *ledger) distinct() int {
	n := 0
	for _, words := range l.seen {
		for _, word := range words {
			n += ones(word)
		}
	}
	return n
}
