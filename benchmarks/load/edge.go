package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// coapPost is one endpoint: a CON POST at a time, retransmitted after two seconds of silence.
func coapPost(o *Options, id, count int) Result {
	conn, err := net.Dial("udp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	payload := body(o.Size)
	result := Result{}
	in := make([]byte, 2048)
	head := append([]byte{0x42, 0x02, 0, 0, byte(id), 0, 0xB2, 'm', 'q', byte(len(o.Topic))}, o.Topic...)
	if o.Rate > 0 {
		return openCoAP(o, conn, count, append(append(head, 0xFF), payload...), id)
	}
	for i := range count {
		mid := uint16(id*7919 + i)
		out := append(append(bytes.Clone(head), 0xFF), payload...)
		binary.BigEndian.PutUint16(out[2:], mid)
		out[5] = byte(i)
		began := time.Now()
		answered := false
		for try := 0; try < 3 && !answered; try++ {
			if _, err := conn.Write(out); err != nil {
				break
			}
			conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			for {
				n, err := conn.Read(in)
				if err != nil {
					break
				}
				if n >= 4 && binary.BigEndian.Uint16(in[2:]) == mid && in[1]>>5 == 2 {
					answered = true
					break
				}
			}
		}
		if !answered {
			result.Errors++
			continue
		}
		result.Messages++
		if i%16 == 0 {
			result.Latencies = append(result.Latencies, time.Since(began))
		}
	}
	return result
}

// httpEvents posts CloudEvents in binary mode over one HTTP/1.1 connection, one at a time.
func httpEvents(o *Options, id, count int) Result {
	conn, err := net.Dial("tcp", o.Addr)
	if err != nil {
		return Result{Errors: count, Note: err.Error()}
	}
	defer conn.Close()
	payload := body(o.Size)
	var out bytes.Buffer
	fmt.Fprintf(&out, "POST /ce/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\nce-id: load-%d\r\n"+
		"ce-source: /load\r\nce-type: com.example.load\r\nce-specversion: 1.0\r\nContent-Length: %d\r\n\r\n", o.Topic, o.Addr, id, len(payload))
	out.Write(payload)
	frame := out.Bytes()
	if o.Rate > 0 {
		return openHTTP(o, conn, count, frame)
	}
	r := bufio.NewReader(conn)
	result := Result{}
	for i := range count {
		began := time.Now()
		if _, err := conn.Write(frame); err != nil {
			return Result{Messages: result.Messages, Errors: count - result.Messages, Note: err.Error()}
		}
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return Result{Messages: result.Messages, Errors: count - result.Messages, Note: err.Error()}
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode/100 == 2 {
			result.Messages++
		} else {
			result.Errors++
			result.Note = response.Status
		}
		if i%16 == 0 {
			result.Latencies = append(result.Latencies, time.Since(began))
		}
	}
	return result
}

// http2Events posts CloudEvents in binary mode over one HTTP/2 connection, o.Window at a time.
func http2Events(o *Options, id, count int) Result {
	client := newGRPC(o.Addr, fmt.Sprintf("load-%d", id)).http
	payload := body(o.Size)
	target := "http://" + o.Addr + "/ce/" + o.Topic
	fields := http.Header{
		"Content-Type": {"application/octet-stream"}, "Ce-Id": {fmt.Sprintf("load-%d", id)}, "Ce-Source": {"/load"},
		"Ce-Type": {"com.example.load"}, "Ce-Specversion": {"1.0"},
	}
	return workers(o.Window, count, func() (int, error) {
		request, err := http.NewRequest("POST", target, bytes.NewReader(payload))
		if err != nil {
			return 0, err
		}
		request.Header = fields
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode/100 != 2 {
			return 0, fmt.Errorf("status %s", response.Status)
		}
		return 1, nil
	})
}
